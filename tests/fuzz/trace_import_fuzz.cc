// Bytes as a trace. A first byte that is odd puts the rest where the events are, so that less has
// to be guessed. What is imported reads back.
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "daemon/base/clock.h"
#include "daemon/import/trace_import.h"
#include "daemon/store/file/capture_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/store/file/capture_file_builder.h"

PROFD_FUZZ_TARGET(FuzzTraceImport)(std::span<const uint8_t> data) {
  const auto require = [](bool holds) {
    if (!holds) __builtin_trap();
  };
  static const profd::store::TemporaryFolder folder;
  const std::filesystem::path trace = folder / "trace.json";
  const bool is_events = !data.empty() && data[0] % 2 == 1;
  {
    std::ofstream out(trace, std::ios::binary | std::ios::trunc);
    if (is_events) out << R"({"schemaVersion":1,"traceEvents":[)";
    if (!data.empty()) {
      out.write(reinterpret_cast<const char*>(data.data()) + 1,
                static_cast<std::streamsize>(data.size() - 1));
    }
    if (is_events) out << "]}";
  }
  const auto imported = profd::importer::ImportTrace(trace, profd::Clock::Real(),
                                                     {.directory = folder.path(),
                                                      .id = "",
                                                      .group_id = "",
                                                      .on_progress = nullptr,
                                                      .is_cancelled = nullptr});
  if (!imported.ok()) return;
  require(profd::store::CaptureReader::Open(imported->file).ok());
  std::error_code error;
  std::filesystem::remove(imported->file, error);
}
