// FLOPs of an operator's call, from the sizes of its inputs. A multiplication and an addition count
// as two operations, as in torch.utils.flop_counter.
//
//   matrix products  2 m n k: mm, addmm, bmm, baddbmm, matmul, linear, mv, dot, and _scaled_mm;
//                    their backward passes consist of these
//   convolutions     2 x outputs x weights of one output channel; backward the same for each
//                    gradient that it computes (of input and of weight)
//   attention        2 b h q k (d + dv); backward 2 b h q k (3 d + 2 dv), because it computes
//                    scores again. A causal mask halves both, which torch's counter does not.
// The addition of a bias (addmm, linear, convolutions) is not counted.
//
// Threads: any. Errors: none; other operators, and inputs that do not fit, have no FLOPs.
#ifndef PROFD_DAEMON_REPORT_OPS_FLOPS_H_
#define PROFD_DAEMON_REPORT_OPS_FLOPS_H_

#include <string_view>

#include "daemon/capture/event_kinds.h"

namespace profd::report {

enum class NumberType { kUnknown, kFp64, kFp32, kBf16, kFp16, kFp8, kInt8 };
std::string_view ToString(NumberType type);  // "bf16"; kUnknown: ""

struct OpFlops {
  double count = 0;  // 0: unknown
  NumberType type = NumberType::kUnknown;
};

// Returns false if calls of this operator never have known FLOPs.
bool MayHaveFlops(std::string_view name);

// Returns the FLOPs of one call. `scalars` is a JSON array of strings, as in traces ("Concrete
// Inputs"); convolutions need it.
OpFlops FlopsOf(std::string_view name, const OperatorInputs& inputs, std::string_view scalars);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_FLOPS_H_
