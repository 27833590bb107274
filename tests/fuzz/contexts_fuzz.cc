// Bytes as the file of contexts: what is accepted is written, and read again as the same.
#include <string_view>

#include "cli/client/contexts.h"
#include "tests/fuzz/fuzz_target.h"

PROFD_FUZZ_TARGET(FuzzContexts)(std::span<const uint8_t> data) {
  const auto require = [](bool holds) {
    if (!holds) __builtin_trap();
  };
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  const auto file = profd::cli::ParseContexts(text, "fuzz");
  if (!file.ok()) return;
  for (const profd::cli::Context& context : file->contexts) {
    require(profd::cli::IsContextName(context.name));
    require(profd::cli::CheckContext(context, "fuzz").ok());
  }
  const std::string written = profd::cli::FormatContexts(*file);
  const auto again = profd::cli::ParseContexts(written, "fuzz");
  require(again.ok() && profd::cli::FormatContexts(*again) == written);
}
