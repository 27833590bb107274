#include "daemon/export/chrome/operators.h"

#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/trace/json_text.h"
#include "daemon/export/trace/note_text.h"

namespace profd::exporter {
namespace {

constexpr size_t kMostFlowBytes = 256;

char* PutMember(char* at, std::string_view key, std::string_view json) {
  return json.empty() ? at : PutText(PutText(at, key), json);
}

}  // namespace

char* ChromeOperators::PutArguments(char* at, const PlannedOperator& op,
                                    const SourceArguments::Row& source) const {
  if (op.sequence >= 0) {
    if (!source_.Has(source, RowArgument::kSequence)) {
      at = PutInteger(PutText(at, R"(,"Sequence number":)"), op.sequence);
    }
    if (!source_.Has(source, RowArgument::kForwardThread)) {
      at = PutInteger(PutText(at, R"(,"Fwd thread id":)"), op.forward_thread);
    }
  }
  if (!source_.Has(source, RowArgument::kCallStack)) at = python_.PutCallStack(at, op.stack);
  // What an imported trace says of a collective, it says in its own words.
  if (op.is_collective && !source_.empty()) return PutInputs(at, op, source);
  const CollectiveText collective = op.is_collective ? CollectiveOf(op) : CollectiveText();
  if (!collective.says_all) at = PutInputs(at, op, source);
  return PutMember(at, ",", collective.members);
}

char* ChromeOperators::PutInputs(char* at, const PlannedOperator& op,
                                 const SourceArguments::Row& source) const {
  const auto put = [&](RowArgument argument, std::string_view key, std::string_view json) {
    if (!source_.Has(source, argument)) at = PutMember(at, key, json);
  };
  put(RowArgument::kScalars, R"(,"Concrete Inputs":)", texts_.ScalarsAt(op.scalars));
  if (const OperatorInputs* const inputs = texts_.InputsAt(op.inputs)) {
    put(RowArgument::kTypes, R"(,"Input type":)", inputs->types);
    put(RowArgument::kStrides, R"(,"Input Strides":)", inputs->strides);
    put(RowArgument::kDims, R"(,"Input Dims":)", inputs->dims);
  }
  return at;
}

CollectiveText ChromeOperators::CollectiveOf(const PlannedOperator& op) const {
  return DescribeCollective(texts_.ScalarsAt(op.scalars), texts_.InputsAt(op.inputs));
}

char* ChromeOperators::PutCollectiveAt(char* at, uint32_t thread, int64_t time_ns) const {
  const PlannedOperator* const op = plan_.CollectiveAt(thread, time_ns);
  return op == nullptr ? at : PutMember(at, ",", CollectiveOf(*op).members);
}

void ChromeOperators::WriteFlow(const PlannedOperator& op, uint32_t thread, int64_t start_ns) {
  if (op.flow == 0) return;
  char* at = out_.Reserve(kMostFlowBytes);
  at = PutText(at, op.ends_flow ? ",\n{\"ph\":\"f\",\"id\":" : ",\n{\"ph\":\"s\",\"id\":");
  at = PutInteger(at, layout_.place.FlowId(op.flow));
  at = PutText(at, R"(,"pid":)");
  at = PutInteger(at, layout_.pid);
  at = PutText(at, R"(,"tid":)");
  at = PutText(at, rows_[thread]);
  at = PutMicros(at, clock_.At(start_ns));
  at = PutText(at, R"(,"cat":"fwdbwd","name":"fwdbwd")");
  at = PutText(at, op.ends_flow ? R"(,"bp":"e"})" : "}");
  out_.Commit(at);
}

absl::Status ChromeOperators::WriteNotes() {
  return reader_.ForEach<NoteRow>([&](const NoteBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (IsShown(batch, i)) WriteNote(batch, i);
    }
    return out_.status();
  });
}

void ChromeOperators::WriteNote(const NoteBatch& batch, size_t i) {
  const TraceNote note = DescribeNote(batch, i, reader_.names());
  // What holds for the whole capture stands at its start, across the process.
  const bool is_timeless = batch.time_ns[i] == kNoNoteTime;
  std::string text = StrCat(",\n{\"ph\":\"i\",\"s\":\"", is_timeless ? "p" : "t",
                            "\",\"cat\":\"cpu_instant_event\",\"name\":");
  AppendJsonString(note.name, text);
  StrAppend(&text, ",\"pid\":", layout_.pid, ",\"tid\":", rows_[batch.thread]);
  char ts[kMostNumberBytes];
  const char* const end = PutMicros(ts, clock_.At(is_timeless ? 0 : batch.time_ns[i]));
  text.append(ts, static_cast<size_t>(end - ts));
  text += ",\"args\":{";
  std::string_view before;
  const auto add_key = [&](std::string_view key) {
    StrAppend(&text, before, "\"", key, "\":");
    before = ",";
  };
  for (const auto& [key, value] : note.texts) {
    add_key(key);
    AppendJsonString(value, text);
  }
  for (const auto& [key, value] : note.numbers) {
    add_key(key);
    StrAppend(&text, value);
  }
  text += "}}";
  out_.Append(text);
}

}  // namespace profd::exporter
