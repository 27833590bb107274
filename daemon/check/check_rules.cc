#include "daemon/check/check_rules.h"

#include <algorithm>

#include "daemon/base/text.h"

namespace profd::check {
namespace {

constexpr auto kError = Severity::kError;
constexpr auto kWarning = Severity::kWarning;
constexpr auto kNote = Severity::kNote;

constexpr std::string_view kAll = "all";
constexpr std::string_view kPerfettoOnly = "Perfetto";
constexpr std::string_view kHta = "HTA";
constexpr std::string_view kTensorBoard = "TensorBoard";

// In the order of Rule.
constexpr CheckRule kCheckRules[] = {
    {"gzip-damaged", kError, kAll, "nothing after the damage is read, or nothing at all",
     "copy the file again, or export it again"},
    {"gzip-members", kWarning, "chrome://tracing, Perfetto",
     "some read only the first of several gzip streams",
     "unpack it and pack it again: gzip -dc FILE | gzip > NEW"},
    {"gzip-trailing", kWarning, kAll, "strict unpackers refuse the file",
     "unpack it and pack it again: gzip -dc FILE | gzip > NEW"},
    {"file-name", kError, "HTA, TensorBoard",
     "they go by the name's end: others are not looked at, and a wrong one is not understood",
     "name it .json if it is plain and .json.gz if it is gzip"},

    {"json-syntax", kError, kAll, "the file is not JSON; nothing after this place was checked",
     "export it again; a trace that broke off was not written to its end"},
    {"json-text", kError, "HTA, TensorBoard", "strict readers refuse the file",
     "write names as UTF-8, with control characters, quotes and backslashes escaped"},
    {"json-number", kError, "Perfetto, chrome://tracing", "JavaScript refuses the whole file",
     "write a number, or null"},
    {"json-key", kWarning, kAll, "readers differ in which of the two values they take",
     "write each key once"},

    {"event-list", kError, "HTA, TensorBoard", "they want an object with a list \"traceEvents\"",
     "wrap the events: {\"traceEvents\": [...]}"},
    {"rank", kError, kHta,
     "it looks for \"rank\": N in the text, with white space after the colon, and takes the "
     "first; "
     "files of several ranks overwrite each other",
     "write distributedInfo before the events, with a space after each colon"},
    {"no-slices", kNote, "HTA, TensorBoard", "there is no event with a duration to show",
     "record while the program runs"},
    {"launch-first", kWarning, kHta,
     "the first event of a file has the index 0, which it takes for `no launch`",
     "write any other event first"},

    {"event", kError, kAll, "what is not an event with a phase is refused or left out",
     "write each event as an object with \"ph\""},
    {"event-name", kError, kTensorBoard, "one event without a name makes it refuse the file",
     "name every event"},
    {"event-category", kError, kTensorBoard,
     "one slice without a category makes it refuse the file; HTA leaves it out",
     "give every slice a \"cat\""},
    {"event-time", kError, kAll, "the event is left out, or stands at the wrong time",
     "write ts as a number of microseconds, not negative and below 2^53"},
    {"event-duration", kError, kAll,
     "the slice is left out, or has no end; HTA also leaves out what lasts more than 7 days",
     "write dur as a number of microseconds, not negative"},
    {"event-row", kError, "HTA, TensorBoard",
     "a slice whose pid or tid is not an integer is on no row", "write pid and tid as integers"},
    {"name-text", kWarning, kAll, "names that are empty or have control characters are garbled",
     "give names that are not empty, in printable characters"},
    {"step-name", kError, kTensorBoard,
     "a slice called ProfilerStep# without a number after it makes it refuse the file",
     "call steps ProfilerStep#N, and nothing else so"},
    {"gpu-arguments", kError, kHta,
     "GPU work without an integer stream and correlation is not seen as such",
     "write args.device, args.stream and args.correlation"},
    {"cpu-stream", kError, kHta, "a CPU event with a stream and a correlation counts as GPU work",
     "leave out args.stream on the CPU"},
    {"gpu-process", kWarning, kTensorBoard,
     "GPU work whose process is not its device is shown under another one",
     "write the device's number as pid"},
    {"launch-name", kWarning, kHta,
     "a call whose name has a version or a suffix is not seen as a launch",
     "cut _v7000, _ptsz and the like off the names of calls"},
    {"memory-arguments", kWarning, kTensorBoard, "the event is missing from the memory view",
     "write args of [memory]: Bytes, Device Type, Device Id"},
    {"flow-id", kError, "Perfetto, TensorBoard", "an arrow's end without an id belongs to none",
     "write \"id\" in both ends"},

    {"nesting", kWarning, "Perfetto, TensorBoard",
     "slices of one row must nest; Perfetto moves those that do not to a row of their own, call "
     "trees come out wrong",
     "put them on rows of their own"},
    {"begin-end", kWarning, "Perfetto, chrome://tracing",
     "a B without its E lasts to the end of the trace, an E without its B is left out",
     "write each pair, or X events"},
    {"step-twice", kWarning, "HTA, TensorBoard", "two slices of one row are the same step",
     "number steps without repeating"},
    {"stream-zero", kNote, kHta, "it gives work on stream 0 to no step",
     "number the default stream otherwise, as CUDA's traces do (7)"},
    {"launch-after-work", kNote, kAll,
     "GPU work seems to begin before the call that launched it: clocks are off, and delays and "
     "queue lengths wrong",
     "take launch delays of this trace for no more than this error"},
    {"flow-backwards", kWarning, kPerfettoOnly, "an arrow that would go back in time is not drawn",
     "leave out the arrow"},
    {"flow-nowhere", kWarning, kPerfettoOnly, "an arrow whose end is in no slice is not drawn",
     "put both ends inside slices, on their rows"},
    {"time-precision", kWarning, kAll,
     "readers take ts for a double: as large as these, it has no room for all its digits",
     "count ts from baseTimeNanoseconds"},

    {"wire-format", kError, kPerfettoOnly,
     "the file is not a chain of packets; nothing after this "
     "place was checked",
     "copy the file again, or export it again"},
    {"packet-sequence", kError, kPerfettoOnly,
     "a packet without a sequence has no state to lean on", "set trusted_packet_sequence_id"},
    {"packet-state", kError, kPerfettoOnly,
     "packets that need incremental state before it was cleared once are left out",
     "begin each sequence with SEQ_INCREMENTAL_STATE_CLEARED"},
    {"interning", kError, kPerfettoOnly,
     "events without a name, or with two, are not shown by name",
     "intern each id once, in or before the packet that uses it"},
    {"track", kError, kPerfettoOnly, "events on tracks that are not described stand in no row",
     "describe each track once, after its parent and before its events"},
    {"slice-order", kWarning, kPerfettoOnly, "slices of a track that go back in time pair wrongly",
     "write the events of a track in the order of time"},
    {"slice-balance", kError, kPerfettoOnly,
     "an end without a begin is left out, a begin without an end lasts for ever",
     "write a SLICE_END for each SLICE_BEGIN of a track"},
    {"packet-flow", kWarning, kPerfettoOnly, "an arrow with one end, or back in time, is not drawn",
     "begin each flow before it ends, once"},
    {"packet-time", kError, kPerfettoOnly, "an event without a time is left out",
     "set timestamp, on a clock that a snapshot or the sequence defines"},

    {"no-rank", kNote, kHta,
     "it wants a rank in each file: some versions refuse a folder of traces without, others take "
     "them all for rank 0",
     "pass the file by itself, as trace_files={0: FILE}"},
    {"no-steps", kNote, "HTA, TensorBoard", "there are no steps to tell apart",
     "mark steps, so that they are shown"},
    {"one-step", kNote, kHta, "with less than two steps it tells none apart", "record two or more"},
    {"name-length", kNote, kAll, "viewers cut names this long",
     "nothing to do where its start tells enough"},
    {"flow-start", kNote, kPerfettoOnly, "an arrow that has no begin is not drawn",
     "nothing to do: torch writes such ends itself"},
    {"flow-end", kNote, kPerfettoOnly, "an arrow that has no end is not drawn",
     "nothing to do where the window ended before the work began"},
    {"work-without-launch", kNote, kHta, "GPU work whose launch is not in the file is in no step",
     "nothing to do where it was launched before the window"},
    {"graph-launch", kNote, kHta,
     "one call launched several pieces of work (a CUDA graph): its queue length analysis fails",
     "use `profctl time` for queue lengths"},
    {"launch-unknown", kNote, kHta,
     "it knows only cudaLaunchKernel and similar calls; this trace has none",
     "use `profctl time` for launch statistics"},
    {"unknown-category", kNote, kAll, "readers leave such events out of their analyses",
     "nothing to do if a viewer is all that is wanted"},
    {"tensorboard-name", kNote, kTensorBoard, "it finds only files called NAME.pt.trace.json[.gz]",
     "rename a copy for it"},
    {"large-file", kNote, kPerfettoOnly, "its page in a browser opens about 2 GB uncompressed",
     "use its trace_processor with --httpd, or export fewer steps"},
};
static_assert(std::size(kCheckRules) == kRuleCount);

}  // namespace

const CheckRule& RuleOf(Rule rule) { return kCheckRules[static_cast<size_t>(rule)]; }

void FindingLog::AddMany(Rule rule, int64_t count, const std::string& example) {
  if (count <= 0) return;
  Add(rule, example);
  entries_[static_cast<size_t>(rule)].count += count - 1;
}

void FindingLog::Keep(Entry& entry, const std::string& untrusted) {
  entry.examples.push_back(ForDisplay(untrusted, 400));
}

void FindingLog::Fill(CheckReport& report) const {
  for (size_t i = 0; i < kRuleCount; ++i) {
    if (entries_[i].count == 0) continue;
    const CheckRule& rule = kCheckRules[i];
    auto& list = rule.severity == Severity::kNote ? report.notes : report.findings;
    list.push_back({&rule, entries_[i].count, entries_[i].examples});
  }
  std::stable_sort(
      report.findings.begin(), report.findings.end(),
      [](const Finding& a, const Finding& b) { return a.rule->severity < b.rule->severity; });
}

std::string_view NameOf(TraceKind kind) {
  return kind == TraceKind::kChrome ? "chrome" : "perfetto";
}

std::string_view NameOf(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "";
}

}  // namespace profd::check
