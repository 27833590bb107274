// Writes HTML reports of made-up captures, for tests/other/html_report_test.py:
//
//   write_html_report FOLDER      full.html, cpu.html, empty.html and long.html in it
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/export/html/report.h"
#include "daemon/export/sink/byte_sink.h"
#include "tests/export/report_capture.h"

namespace profd {
namespace {

absl::Status Write(store::CaptureReader& reader, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<exporter::ByteSink> sink, exporter::OpenFileSink(path));
  return exporter::ExportHtmlReport(reader, *sink);
}

// Steps that differ, on the CPU.
void AddSteps(int64_t count, FakeCaptureReader& reader) {
  const uint32_t main = reader.AddThread(1, "main");
  for (int64_t step = 0; step < count; ++step) {
    const int64_t at = step * 1'000'000;
    reader.Step(step, at, 1'000'000).Range(main, "forward", at, at + 400'000 + step % 7 * 50'000);
  }
  reader.StepThread(main);
}

absl::Status WriteAll(const std::filesystem::path& folder) {
  ReportCapture full;
  RETURN_IF_ERROR(Write(full.reader(), folder / "full.html"));
  FakeCaptureReader cpu;
  AddSteps(12, cpu);
  RETURN_IF_ERROR(Write(cpu, folder / "cpu.html"));
  FakeCaptureReader many;
  AddSteps(5000, many);
  RETURN_IF_ERROR(Write(many, folder / "long.html"));
  FakeCaptureReader empty;
  return Write(empty, folder / "empty.html");
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_html_report FOLDER\n");
    return 2;
  }
  const absl::Status status = profd::WriteAll(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
