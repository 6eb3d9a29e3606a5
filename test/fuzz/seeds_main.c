/* Runs a fuzz target on the files it is given: for compilers without libFuzzer, and to repeat a finding. */
#include <stdio.h>
#include <stdlib.h>

#include "input.h"

enum { LARGEST = 1 << 20 };

static int run(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    uint8_t *data = malloc(LARGEST);
    size_t size = data ? fread(data, 1, LARGEST, file) : 0;
    fclose(file);
    uint8_t *exact = data ? realloc(data, size ? size : 1) : NULL;
    if (exact) LLVMFuzzerTestOneInput(exact, size);
    free(exact ? exact : data);
    return exact == NULL;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= run(argv[i]);
    printf("%d inputs\n", argc - 1);
    return failed;
}
