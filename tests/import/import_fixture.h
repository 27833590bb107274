// A folder with traces, and captures made of them.
#ifndef PROFD_TESTS_IMPORT_IMPORT_FIXTURE_H_
#define PROFD_TESTS_IMPORT_IMPORT_FIXTURE_H_

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/trace_import.h"
#include "daemon/store/file/capture_reader.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::importer {

class ImportTest : public testing::Test {
 protected:
  std::filesystem::path Write(std::string_view name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  absl::StatusOr<ImportedCapture> Import(const std::filesystem::path& trace,
                                         const std::string& group_id = "") {
    return ImportTrace(trace, Clock::Real(),
                       {.directory = folder_.path(),
                        .id = "",
                        .group_id = group_id,
                        .on_progress = nullptr,
                        .is_cancelled = nullptr});
  }
  absl::StatusOr<ImportedCapture> ImportText(std::string_view text) {
    return Import(Write("trace.json", text));
  }
  // Of a trace with these events, one JSON object after the other, with commas.
  std::unique_ptr<store::CaptureReader> ReadEvents(std::string_view events) {
    return Read(StrCat(R"({"schemaVersion":1,"traceEvents":[)", events, "]}"));
  }
  std::unique_ptr<store::CaptureReader> Read(std::string_view text) {
    const auto imported = ImportText(text);
    if (!imported.ok()) {
      ADD_FAILURE() << imported.status();
      return nullptr;
    }
    return Open(imported->file);
  }
  static std::unique_ptr<store::CaptureReader> Open(const std::filesystem::path& file) {
    auto reader = store::CaptureReader::Open(file);
    if (reader.ok()) return *std::move(reader);
    ADD_FAILURE() << reader.status();
    return nullptr;
  }

  store::TemporaryFolder folder_;
};

// All that a capture holds, a line for each row, in an order of its own: two captures are of the
// same events if their lines are equal.
std::vector<std::string> LinesOf(store::CaptureReader& reader);

}  // namespace profd::importer

#endif  // PROFD_TESTS_IMPORT_IMPORT_FIXTURE_H_
