// Prints the ring layout of picket_ring.h as a TypeScript module (`ts`) or a Python module (`py`).
#include <cstdio>
#include <cstring>

#include "layout_table.h"

namespace {

constexpr const char* kNotice = "Generated from native/include/picket_ring.h by `make -C native layout`. Do not edit.";

void print_typescript() {
  std::printf("// %s\n\n", kNotice);
  std::printf("/** Sizes, offsets in bytes and constants of the ring. */\nexport const LAYOUT = {\n");
  std::printf("  segmentPrefix: '%s',\n", PICKET_SEGMENT_PREFIX);
  const char* section = "";
  for (const auto& field : picket::layout_table()) {
    if (std::strcmp(section, field.section) != 0) {
      std::printf("%s  %s: {\n", *section ? "  },\n" : "", field.section);
      section = field.section;
    }
    std::printf("    %s: %llu,\n", picket::camel_case(field.name).c_str(), (unsigned long long)field.value);
  }
  std::printf("  },\n} as const;\n");
}

void print_python() {
  std::printf("\"\"\"Sizes, offsets in bytes and constants of the ring.\n\n%s\n\"\"\"\n\n", kNotice);
  std::printf("SEGMENT_PREFIX = \"%s\"\n", PICKET_SEGMENT_PREFIX);
  for (const auto& field : picket::layout_table()) {
    for (const char* part : {field.section, "_", field.name})
      for (; *part; part++) std::putchar(*part >= 'a' && *part <= 'z' ? *part - 'a' + 'A' : *part);
    std::printf(" = %llu\n", (unsigned long long)field.value);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "ts") == 0) return print_typescript(), 0;
  if (count == 2 && std::strcmp(arguments[1], "py") == 0) return print_python(), 0;
  std::fprintf(stderr, "usage: emit_layout ts|py\n");
  return 2;
}
