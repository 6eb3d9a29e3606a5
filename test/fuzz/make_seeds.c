/* Writes the seeds of the fuzz targets into a folder: small inputs made of real encodings.
 *
 *   make_seeds FOLDER      FOLDER/TARGET/NAME for each seed; folders are made as needed */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/alloc.h"
#include "core/key.h"
#include "core/options.h"
#include "core/value.h"
#include "make_seeds.h"

static const char *top;

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return;
    perror(path);
    exit(1);
}

void seed_write(const char *target, const char *name, const void *head, size_t head_size, const void *body,
                size_t body_size)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", top, target);
    make_folder(path);
    snprintf(path, sizeof(path), "%s/%s/%s", top, target, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(head, 1, head_size, file) != head_size ||
        fwrite(body, 1, body_size, file) != body_size || fclose(file)) {
        perror(path);
        exit(1);
    }
}

/* A text after one byte that says which memory fails. */
static void write_text(const char *target, const char *name, uint8_t failing, const char *text)
{
    seed_write(target, name, &failing, 1, text, strlen(text));
}

/* ---- values ---- */

static void write_values(void)
{
    el_value value = {.host = "node-1",
                      .program = "worker",
                      .label = "nightly \"run\" \xC3\xA9",
                      .pid = 4242,
                      .thread = 4243,
                      .since_unix_ms = 1764421200123,
                      .acquisition = "0123456789abcdef"};
    size_t size;
    char *json = el_value_write(&value, &size);
    if (!json) exit(1);
    write_text("value", "full", 0, json);
    write_text("value", "full-starved-reader", 1 + 2 * 5, json);
    json[size / 2] = '\0';
    write_text("value", "cut", 0, json);
    el_free(json);
    write_text("value", "empty", 0, "");
    write_text("value", "escapes", 3,
               "{\"host\":\"\\u00e9\\ud83d\\ude00\\n\",\"pid\":-1e3,\"label\":\"\xFF\"}");
    write_text("value", "nested", 0, "{\"host\":{\"a\":[[[{\"b\":[true,null,1.5]}]]]},\"pid\":\"1\"}");
}

/* ---- keys and names ---- */

static void write_key(const char *name, bool reader, int64_t lease, unsigned slot)
{
    static const char folder[] = "pre/NAME/";
    el_span span = {folder, sizeof(folder) - 1};
    char key[sizeof(folder) + EL_ENTRY_MAX];
    uint8_t head[17] = {reader};
    size_t size = el_key_write(key, span, reader, lease, slot);
    for (int i = 0; i < 8; i++) {
        head[1 + i] = (uint8_t)((uint64_t)lease >> (56 - 8 * i));
        head[9 + i] = (uint8_t)((uint64_t)slot >> (56 - 8 * i));
    }
    seed_write("key", name, head, sizeof(head), key + span.size, size - span.size);
}

static void write_keys(void)
{
    static const char *const names[] = {"a", "jobs/nightly", "/a", "a/", "a//b", "a\n/"};
    static const char *const files[] = {"short",      "folders",     "slash-first",
                                        "slash-last", "two-slashes", "line-break"};
    write_key("writer", false, 0x694d7c8a1b2c3d4e, 0);
    write_key("reader-slot", true, 0x694d7c8a1b2c3d4e, 12);
    write_key("longest", true, INT64_MIN, 4294967295u);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        seed_write("name", files[i], NULL, 0, names[i], strlen(names[i]));
}

/* ---- options ---- */

static void write_config(void)
{
    write_text("config", "empty", 0, "{}");
    write_text("config", "usual", 0,
               "{\n  \"endpoints\": \"a:2379,b:2379\",\n  \"user\": \"me:secret\",\n  \"ttl_s\": 10,\n"
               "  \"log_level\": \"info\",\n  \"on_error\": \"abort\"\n}\n");
    write_text("config", "starved", 2 * 4, "{\"endpoints\":\"a\",\"label\":\"x\",\"key_prefix\":\"p/\"}");
    write_text("config", "starved-reader", 1 + 2 * 3, "{\"ttl_s\":7,\"margin_ms\":200}");
    write_text("config", "twice", 0, "{\"ttl_s\":7,\"ttl_s\":8}");
    write_text("config", "wrong-type", 0, "{\"ttl_s\":[1,{\"a\":\"b\"}]}");
    write_text("config", "not-json", 0, "{\"label\":\"\\u0000\"}");
    write_text("config", "no-file", 0, "{\"ca_file\":\"/no/such/file\"}");
    write_text("config", "no-file-line-break", 0, "{\"ca_file\":\"/no\\nsuch\"}");
}

static void write_variable(el_option option, const char *name, const char *text)
{
    uint8_t head[] = {(uint8_t)option, 2};
    seed_write("environment", name, head, sizeof(head), text, strlen(text));
}

static void write_environment(void)
{
    write_variable(EL_OPTION_DIAL_TIMEOUT, "compound", "1h2m3.5s");
    write_variable(EL_OPTION_TTL, "bare", "30");
    write_variable(EL_OPTION_TTL, "micro", "+1000000\302\265s");
    write_variable(EL_OPTION_COMMAND_TIMEOUT, "huge", "99999999999999999999h");
    write_variable(EL_OPTION_KEEPALIVE_TIME, "fraction", ".0000001ns");
    write_variable(EL_OPTION_LOG_LEVEL, "level", "Debug");
    write_variable(EL_OPTION_INSECURE_TRANSPORT, "boolean", "FALSE");
    write_variable(EL_OPTION_USER, "text", "me:secret");
}

static void write_endpoints(void)
{
    write_text("endpoints", "several", 0, "a, B:1 ,http://c:65535/,[::1]:2379");
    write_text("endpoints", "tls", 0, "https://etcd-1.example:2379,https://etcd-2.example");
    write_text("endpoints", "unix", 0, "unix:///run/etcd.sock,unix:a/b");
    write_text("endpoints", "unix-slashes", 0, "unix:////run/etcd.sock,unix://///a");
    write_text("endpoints", "host-unix", 0, "http://Unix:2379");
    write_text("endpoints", "mixed", 0, "http://a,https://b");
    write_text("endpoints", "twice", 0, "a,A:2379");
    write_text("endpoints", "starved", 2, "a");
}

/* ---- markers and cells ---- */

static void write_markers(void)
{
    static const char ours[] = "held 41\n{\"acquisition\":\"0123456789abcdef\"}\n";
    char both[256];
    write_text("marker", "ours", 0, ours);
    write_text("marker", "another", 0, "held 40\n{\"host\":\"node-1\"}\n");
    write_text("marker", "unrepaired", 1, "dead 39\n{\"pid\":7}\n");
    snprintf(both, sizeof(both), "%sdead 12\n\n", ours);
    write_text("marker", "ours-unrepaired", 2, both);
    write_text("marker", "nonsense", 0, "held\n\n");
}

static void write_cells(void)
{
    static const uint8_t whole[] = {16, 1, 1, 3, 200}, raw[] = {0, 0};
    seed_write("fence", "resource", whole, sizeof(whole), "orders", 6);
    seed_write("fence", "raw", raw, sizeof(raw), "etcdlock fence", 14);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 1;
    }
    top = argv[1];
    make_folder(top);
    seed_messages();
    write_values();
    write_markers();
    write_cells();
    write_keys();
    write_config();
    write_environment();
    write_endpoints();
    return 0;
}
