// ChromeOperators puts into a Chrome trace what is known of operators besides their ranges: their
// arguments, under Kineto's names, and the arrows from forward to backward; and notes, as instants.
//
// Threads: one. Errors: the reader's; those of the sink are in `out`.
#ifndef PROFD_DAEMON_EXPORT_CHROME_OPERATORS_H_
#define PROFD_DAEMON_EXPORT_CHROME_OPERATORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/export/chrome/python.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/clock.h"
#include "daemon/export/trace/collective_text.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/operator_plan.h"
#include "daemon/export/trace/operator_texts.h"
#include "daemon/export/trace/source_arguments.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class ChromeOperators {
 public:
  // What PutArguments() writes at most.
  static constexpr size_t kMostArgumentBytes = 2 * OperatorTexts::kMostBytes + 512 +
                                               kMostCollectiveBytes + SourceArguments::kMostBytes +
                                               ChromePython::kMostCallStackBytes;

  // Borrows all. `rows`: `17,"ts":`, by thread.
  ChromeOperators(store::CaptureReader& reader, const OperatorPlan& plan,
                  const ChromePython& python, const TraceLayout& layout,
                  std::span<const std::string> rows, const SourceArguments& source,
                  TraceClock clock, OutputBuffer& out)
      : reader_(reader),
        plan_(plan),
        python_(python),
        source_(source),
        texts_(reader),
        layout_(layout),
        rows_(rows),
        clock_(clock),
        out_(out) {}

  // Inputs that are not what they should be, and are not written.
  int64_t inputs_left_out() const { return texts_.left_out(); }

  // `,"Sequence number":...`: what an operator's row restores, but what `source` has.
  char* PutArguments(char* at, const PlannedOperator& op, const SourceArguments::Row& source) const;
  // `,"Collective name":...` of what a thread launched at a time, if that was in a collective.
  // At most kMostCollectiveBytes + 1.
  char* PutCollectiveAt(char* at, uint32_t thread, int64_t time_ns) const;
  // The arrow at an operator whose event was just written, if it has one.
  void WriteFlow(const PlannedOperator& op, uint32_t thread, int64_t start_ns);

  absl::Status WriteNotes();

 private:
  char* PutInputs(char* at, const PlannedOperator& op, const SourceArguments::Row& source) const;
  CollectiveText CollectiveOf(const PlannedOperator& op) const;
  void WriteNote(const NoteBatch& batch, size_t i);

  store::CaptureReader& reader_;
  const OperatorPlan& plan_;
  const ChromePython& python_;
  const SourceArguments& source_;
  const OperatorTexts texts_;
  const TraceLayout& layout_;
  const std::span<const std::string> rows_;
  const TraceClock clock_;
  OutputBuffer& out_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_OPERATORS_H_
