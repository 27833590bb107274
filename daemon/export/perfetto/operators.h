// PerfettoOperators puts into a Perfetto trace what is known of operators besides their ranges:
// inputs as annotations, whose texts each thread's sequence has once, their Python stacks, and
// flows from forward to backward.
//
// Threads: one. Ownership: borrows the reader, the plan and the packets.
#ifndef PROFD_DAEMON_EXPORT_PERFETTO_OPERATORS_H_
#define PROFD_DAEMON_EXPORT_PERFETTO_OPERATORS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/export/perfetto/packets.h"
#include "daemon/export/perfetto/proto_writer.h"
#include "daemon/export/trace/operator_plan.h"
#include "daemon/export/trace/operator_texts.h"
#include "daemon/report/index/stack_table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class PerfettoOperators {
 public:
  PerfettoOperators(const store::CaptureReader& reader, const OperatorPlan& plan,
                    report::StackTable stacks, const PerfettoPackets& packets);

  bool empty() const { return plan_.empty(); }
  const PlannedOperator* Find(uint32_t range) const { return plan_.Find(range); }

  // What every thread's sequence has to have at its start.
  void AddNames(ProtoMessage& interned_data) const;

  // Adds to the begin of an operator's slice on a thread, and to the packet's interned data, which
  // the caller writes if this says that there is some.
  bool Describe(const PlannedOperator& op, uint32_t thread, ProtoMessage& event,
                ProtoMessage& interned_data);

 private:
  enum Text : uint64_t { kDims = 1, kTypes = 2, kStrides = 3, kScalars = 4 };

  bool AddText(Text kind, uint32_t index, std::string_view text, uint32_t thread,
               ProtoMessage& event, ProtoMessage& interned_data);

  void AddStack(uint32_t stack, uint32_t thread, ProtoMessage& event, ProtoMessage& interned_data);
  void AddFrame(uint32_t stack, uint32_t thread, ProtoMessage& interned_data);
  // The line that the generated code of `stack` comes from; 0: none. Returns the frame's number.
  uint32_t AddSource(uint32_t stack, uint32_t thread, ProtoMessage& interned_data);

  // What a thread's sequence has.
  struct Sent {
    absl::flat_hash_set<uint64_t> texts;
    absl::flat_hash_set<uint32_t> stacks;
    // By the stack that they are the innermost frame of; sources of generated code after all.
    absl::flat_hash_set<uint32_t> frames;
    absl::flat_hash_set<uint64_t> functions;
    absl::flat_hash_set<uint32_t> files;
  };

  const std::span<const std::string> names_;
  const report::StackTable stacks_;
  const OperatorPlan& plan_;
  const PerfettoPackets& packets_;
  const OperatorTexts texts_;
  std::vector<Sent> sent_;  // By thread.
  ProtoMessage argument_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_PERFETTO_OPERATORS_H_
