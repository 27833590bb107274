// What profd-report answers when a capture is sealed, as bytes, and the request for it.
//
//   request            descriptor              answer
//   CheckEvents        ID.part or ID.profd     EncodeEventChecks()
//   SummarizeEvents    ID.profd                EncodeEventSummaries()
//
// Numbers are i64 in the byte order of the machine, texts a number and that many bytes. Both
// programs are of one version (kProtocolVersion), so there is no other one of this format.
//
// Trust:  the program may have been taken over by the file that it read. So the decoders accept
//         no more rows and bytes than the limits below, no number below 0, no part larger than its
//         whole, and no error with a reason but OVER_BUDGET. Numbers that are wrong but possible
//         cannot be told from right ones: they are those of the one capture whose file did it.
// Errors: INTERNAL: malformed, or beyond a limit.
#ifndef PROFD_DAEMON_WORKER_SEAL_ANSWERS_H_
#define PROFD_DAEMON_WORKER_SEAL_ANSWERS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/capture/quality.h"
#include "daemon/store/file/seal.h"

namespace profd::worker {

inline constexpr std::string_view kCheckEvents = "CheckEvents";
inline constexpr std::string_view kSummarizeEvents = "SummarizeEvents";

// Of a whole answer. A summary of ranks with as many collectives as it may have is below 2 MiB.
inline constexpr size_t kMaxSealAnswerBytes = size_t{4} << 20;
inline constexpr size_t kMaxSummarizedDevices = 1024;
inline constexpr size_t kMaxEventNameBytes = 4096;

std::string EncodeSummaryRequest(const store::SummaryRequest& request);
// Without `is_urgent`, which is profd's own.
absl::StatusOr<store::SummaryRequest> DecodeSummaryRequest(std::string_view options);

std::string EncodeEventChecks(const EventChecks& checks);
absl::StatusOr<EventChecks> DecodeEventChecks(std::string_view answer);

// Of the operators, those that the catalog keeps (store::LargestOps()).
std::string EncodeEventSummaries(store::EventSummaries summaries);
absl::StatusOr<store::EventSummaries> DecodeEventSummaries(std::string_view answer);

}  // namespace profd::worker

#endif  // PROFD_DAEMON_WORKER_SEAL_ANSWERS_H_
