#include <string>

#include "daemon/rpc/convert/convert.h"

namespace profd::rpc {

void CollectiveTableToProto(const report::CollectiveTable& table, v1::GetCollectivesResponse& out) {
  for (const report::Communicator& communicator : table.communicators) {
    v1::Communicator& message = *out.add_communicators();
    message.set_size(communicator.size);
    message.set_first_rank(communicator.first_rank);
    message.set_rank_stride(communicator.rank_stride);
  }
  // Every kind there is: their numbers are those of the enum.
  for (auto kind = report::CollectiveKind::kOther; kind <= report::CollectiveKind::kReceive;
       kind = static_cast<report::CollectiveKind>(static_cast<int>(kind) + 1)) {
    out.add_kind_names(std::string(ToString(kind)));
  }
  // As unsigned: no number in a stranger's file can overflow.
  uint64_t before_ns = 0;
  for (const report::CollectiveRow& row : table.rows) {
    const auto start_ns = static_cast<uint64_t>(row.start_ns);
    out.add_start_delta_ns(static_cast<int64_t>(start_ns - before_ns));
    before_ns = start_ns;
    out.add_duration_ns(row.duration_ns);
    out.add_exposed_ns(row.exposed_ns);
    out.add_sequence(row.sequence);
    out.add_elements(row.elements);
    out.add_step(row.step);
    out.add_communicator(static_cast<int32_t>(row.communicator));
    out.add_kind(static_cast<int32_t>(row.kind));
    out.add_on_device(row.on_device);
    out.add_has_completion(row.has_completion);
  }
  for (const report::StepWorkRow& step : table.steps) {
    v1::StepWork& message = *out.add_steps();
    message.set_step(step.step);
    message.set_duration_ns(step.duration_ns);
    message.set_exposed_ns(step.exposed_ns);
  }
  out.set_left_out_count(table.left_out_count);
}

}  // namespace profd::rpc
