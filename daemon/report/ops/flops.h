// What a call of an operator computes, from the sizes of its inputs: floating-point operations,
// a multiplication and an addition counting as two, as torch.utils.flop_counter has them.
//
//   matrix products       2 m n k: mm, addmm, bmm, baddbmm, matmul, linear, mv, dot, and
//   _scaled_mm;
//                         their backwards are made of these
//   convolutions          2 x outputs x weights of one output channel; backward the same for each
//   of
//                         the gradients (of input and of weight) that it makes
//   attention             2 b h q k (d + dv); backward 2 b h q k (3 d + 2 dv), as scores are made
//                         anew. That a causal mask spares half is not taken off.
//
// Threads: any. Errors: none: what is not one of these, or has inputs that make no sense, has none.
#ifndef PROFD_DAEMON_REPORT_OPS_FLOPS_H_
#define PROFD_DAEMON_REPORT_OPS_FLOPS_H_

#include <string_view>

#include "daemon/capture/event_rows.h"

namespace profd::report {

enum class NumberType { kUnknown, kFp64, kFp32, kBf16, kFp16, kFp8, kInt8 };
std::string_view ToString(NumberType type);  // "bf16"; kUnknown: ""

struct OpFlops {
  double count = 0;  // 0: not known
  NumberType type = NumberType::kUnknown;
};

// False: no call of it is known to compute anything.
bool MayHaveFlops(std::string_view name);

// `scalars`: a JSON array of texts, as in traces ("Concrete Inputs"); convolutions need it.
OpFlops FlopsOf(std::string_view name, const OperatorInputs& inputs, std::string_view scalars);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_FLOPS_H_
