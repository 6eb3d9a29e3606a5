/* Prints the README's table of options; scripts/options-table.sh compiles and runs it. */
#include "core/options.h"

int main(void)
{
    el_options_print_markdown(stdout);
    return fflush(stdout) != 0 || ferror(stdout) != 0;
}
