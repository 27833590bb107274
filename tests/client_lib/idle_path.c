/* What elf_test.py disassembles: a program's annotations as its compiler inlines them. */
#include "profd/profd.h"

void profd_test_range(profd_name* name, volatile int* work) {
  profd_range_begin(name);
  *work += 1;
  profd_range_end();
}

void profd_test_instant_and_counter(profd_name* name, volatile int* work) {
  profd_instant(name);
  *work += 1;
  profd_counter(name, 2.0);
}
