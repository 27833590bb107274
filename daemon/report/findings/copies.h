// Gathers facts about copies between host and device, and about decompression, row by row (called
// by kernels.cc).
#ifndef PROFD_DAEMON_REPORT_FINDINGS_COPIES_H_
#define PROFD_DAEMON_REPORT_FINDINGS_COPIES_H_

#include <cstddef>
#include <cstdint>

#include "daemon/report/findings/evidence_sums.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/index/launch_statistics.h"

namespace profd::report {

class CopyPass {
 public:
  CopyPass(FactSources& sources, const GpuDevice* device, CopyFacts& facts);

  // Adds memory work of the device inside the scope. `call` may be null.
  void Add(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call);
  void Finish();

 private:
  uint32_t OpOf(const GpuAttribution::Call* call) const;
  void AddCopy(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call);
  bool WaitsFor(const GpuAttribution::Call& copy) const;
  void AddPageable(const EvidenceSums::Item& item, int64_t bytes);
  void AddPinned(const EvidenceSums::Item& item, int64_t bytes);

  FactSources& sources_;
  CopyFacts& facts_;
  Numbering<uint32_t> kinds_;  // Of copies: direction and memories.
  EvidenceSums pageable_;
  EvidenceSums blocking_;
  EvidenceSums slow_;
  EvidenceSums decompression_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_COPIES_H_
