#include "fence/cell.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

enum {
    AT_SIZE = 4,
    AT_KIND = 6,
    AT_WRITES = 8,
    MAGIC_SIZE = 16,
    HEADER_BODY = MAGIC_SIZE + 4 + 4 + 8 + 8,
};

static const char magic[MAGIC_SIZE] = "etcdlock fence\n";

static uint32_t crc_table[256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void fill_crc_table(void)
{
    const uint32_t castagnoli = 0x82f63b78u; /* its bits reversed */
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? castagnoli : 0);
        crc_table[byte] = crc;
    }
}

static uint32_t crc_go_on(uint32_t crc, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ crc_table[(crc ^ bytes[i]) & 0xff];
    return crc;
}

static void put(unsigned char *at, uint64_t number, int size)
{
    for (int i = 0; i < size; i++)
        at[i] = (unsigned char)(number >> (8 * i));
}

static uint64_t get(const unsigned char *at, int size)
{
    uint64_t number = 0;
    for (int i = 0; i < size; i++)
        number |= (uint64_t)at[i] << (8 * i);
    return number;
}

static uint32_t checksum(uint64_t offset, const unsigned char *bytes, size_t size)
{
    pthread_once(&crc_once, fill_crc_table);
    unsigned char place[8];
    put(place, offset, 8);
    uint32_t crc = crc_go_on(~0u, place, sizeof(place));
    return ~crc_go_on(crc, bytes + AT_SIZE, size - AT_SIZE);
}

static size_t body_size(el_fence_kind kind, size_t name_size)
{
    switch (kind) {
    case EL_FENCE_HEADER:
        return HEADER_BODY;
    case EL_FENCE_RESOURCE:
        return 8 + name_size;
    case EL_FENCE_SKIP:
        break;
    }
    return 0;
}

size_t el_fence_cell_room(el_fence_kind kind, size_t name_size)
{
    return (EL_FENCE_CELL_HEAD + body_size(kind, name_size) + 7) / 8 * 8;
}

size_t el_fence_cell_encode(const el_fence_cell *cell, uint64_t offset, unsigned char *bytes)
{
    size_t size = body_size(cell->kind, cell->name_size);
    size_t room = el_fence_cell_room(cell->kind, cell->name_size);
    assert(room <= EL_FENCE_CELL_MAX);
    memset(bytes, 0, room);
    put(bytes + AT_SIZE, size, 2);
    put(bytes + AT_KIND, cell->kind, 2);
    put(bytes + AT_WRITES, cell->writes, 8);
    unsigned char *body = bytes + EL_FENCE_CELL_HEAD;
    if (cell->kind == EL_FENCE_HEADER) {
        memcpy(body, magic, MAGIC_SIZE);
        put(body + 16, cell->version, 4);
        put(body + 20, cell->durability, 4);
        put(body + 24, cell->end, 8);
        put(body + 32, cell->resources, 8);
    } else if (cell->kind == EL_FENCE_RESOURCE) {
        put(body, cell->token, 8);
        memcpy(body + 8, cell->name, cell->name_size);
    }
    put(bytes, checksum(offset, bytes, EL_FENCE_CELL_HEAD + size), 4);
    return room;
}

static bool decode_header(el_fence_cell *cell, const unsigned char *body, size_t size)
{
    if (size < MAGIC_SIZE + 4 || memcmp(body, magic, MAGIC_SIZE) != 0) return false;
    cell->version = (uint32_t)get(body + 16, 4);
    if (cell->version != EL_FENCE_VERSION) return true;
    if (size != HEADER_BODY) return false;
    cell->durability = (uint32_t)get(body + 20, 4);
    cell->end = get(body + 24, 8);
    cell->resources = get(body + 32, 8);
    return true;
}

static bool decode_resource(el_fence_cell *cell, const unsigned char *body, size_t size)
{
    if (size <= 8 || size > EL_FENCE_BODY_MAX) return false;
    cell->token = get(body, 8);
    cell->name_size = size - 8;
    memcpy(cell->name, body + 8, cell->name_size);
    return memchr(cell->name, '\0', cell->name_size) == NULL;
}

bool el_fence_cell_decode(el_fence_cell *cell, uint64_t offset, const unsigned char *bytes, size_t size)
{
    if (size < EL_FENCE_CELL_HEAD) return false;
    size_t in_body = get(bytes + AT_SIZE, 2);
    if (in_body > size - EL_FENCE_CELL_HEAD) return false;
    if (get(bytes, 4) != checksum(offset, bytes, EL_FENCE_CELL_HEAD + in_body)) return false;
    cell->kind = (el_fence_kind)get(bytes + AT_KIND, 2);
    cell->writes = get(bytes + AT_WRITES, 8);
    cell->version = cell->durability = 0;
    cell->end = cell->resources = cell->token = cell->name_size = 0;
    const unsigned char *body = bytes + EL_FENCE_CELL_HEAD;
    switch (cell->kind) {
    case EL_FENCE_HEADER:
        return decode_header(cell, body, in_body);
    case EL_FENCE_RESOURCE:
        return decode_resource(cell, body, in_body);
    case EL_FENCE_SKIP:
        return in_body == 0;
    }
    return false;
}

bool el_fence_cell_is_header_like(const unsigned char *bytes, size_t size)
{
    return size >= EL_FENCE_CELL_HEAD + MAGIC_SIZE &&
           memcmp(bytes + EL_FENCE_CELL_HEAD, magic, MAGIC_SIZE) == 0;
}
