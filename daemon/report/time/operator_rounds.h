// OperatorRounds says whether a thread repeats its operators: what a loop without an optimizer,
// a DataLoader, or marks does in each of its rounds, such as one forward pass of a server.
//
//   A B C C  A B C C  A B C C ...   20 rounds or more of 4 operators
//
// A round is the shortest stretch of two outermost operators or more that repeats without a
// difference, 20 times or more, for a second or longer and over half of what the thread ran: layers
// of a model repeat, too, but seldom for so long. Where a loop begins is not known, so a round may
// begin in its middle.
//
// Known gap: of a capture of one or two long passes of a model, the layers count as rounds.
//
// `profctl trace --step-source periodicity` counts such rounds as steps, while it records
// (client_lib/torch/period_detector.h).
//
// Threads: any. Errors: none.
// Memory:  4 bytes per operator.
#ifndef PROFD_DAEMON_REPORT_TIME_OPERATOR_ROUNDS_H_
#define PROFD_DAEMON_REPORT_TIME_OPERATOR_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace profd::report {

struct OperatorRounds {
  int64_t count = 0;      // Whole rounds; 0: the operators do not repeat.
  int64_t operators = 0;  // Outermost ones, of a round.
  int64_t median_ns = 0;  // From the begin of one to the begin of the next.
};

// An outermost operator; equal numbers are equal names.
struct OutermostOperator {
  uint32_t name = 0;
  int64_t start_ns = 0;
};

// Rounds are looked for in so many operators; of more, callers pass the last ones.
inline constexpr size_t kMostOperatorsInRounds = 65'536;

// Of one thread's operators, by start; at most kMostOperatorsInRounds.
OperatorRounds FindOperatorRounds(std::span<const OutermostOperator> operators);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_OPERATOR_ROUNDS_H_
