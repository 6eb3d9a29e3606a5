/* Cells of fence files. Input: the place of the cell in its file, in units of 8 bytes; whether its checksum
 * is made right; the cell. */
#include "fence/cell.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"

/* Else no made-up input would ever get behind the checksum: what is read is taken from a cell that was
 * written. */
static size_t make_whole(el_fence_cell *cell, input *in, uint64_t offset, unsigned char *bytes)
{
    *cell = (el_fence_cell){.kind = (el_fence_kind)(input_u8(in) % 3 + 1), .version = EL_FENCE_VERSION};
    cell->writes = input_u8(in);
    cell->token = cell->end = cell->resources = input_u8(in);
    cell->durability = 1;
    cell->name_size = in->size < sizeof(cell->name) ? in->size : sizeof(cell->name);
    memcpy(cell->name, in->data, cell->name_size);
    for (size_t i = 0; i < cell->name_size; i++)
        if (!cell->name[i]) cell->name[i] = '0'; /* no resource has such a name */
    if (cell->name_size == 0) cell->name[cell->name_size++] = 'x';
    return el_fence_cell_encode(cell, offset, bytes);
}

static void expect_cell(const el_fence_cell *cell)
{
    expect(cell->kind >= EL_FENCE_HEADER && cell->kind <= EL_FENCE_SKIP, "a whole cell is of a known kind");
    expect(cell->kind != EL_FENCE_RESOURCE || cell->name_size <= sizeof(cell->name), "a name fits");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint64_t offset = (uint64_t)input_u8(&in) * 8;
    bool is_whole = input_u8(&in) % 2;
    el_fence_cell written, cell;
    unsigned char bytes[EL_FENCE_CELL_MAX];
    if (is_whole) {
        size_t n = make_whole(&written, &in, offset, bytes);
        expect(n <= sizeof(bytes), "a cell fits into its room");
        expect(el_fence_cell_decode(&cell, offset, bytes, n), "what was written is read");
        expect_cell(&cell);
        expect(cell.kind == written.kind && cell.writes == written.writes, "as it was");
        expect(!el_fence_cell_decode(&cell, offset + 8, bytes, n), "at its own place only");
        if (n > 0) bytes[n / 2] ^= 1;
        expect(!el_fence_cell_decode(&cell, offset, bytes, n), "and whole only");
        return 0;
    }
    uint8_t *raw = input_bytes(&in);
    (void)el_fence_cell_is_header_like(raw, in.size);
    if (el_fence_cell_decode(&cell, offset, raw, in.size)) expect_cell(&cell);
    free(raw);
    return 0;
}
