/* Prints the layout of the public headers; its output is a baseline. */
#include <stdio.h>

void tenon_print_layout(FILE* f);

int main(void) {
  tenon_print_layout(stdout);
  return 0;
}
