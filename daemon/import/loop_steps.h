// The steps of one loop, of all "ProfilerStep#N" in a trace. Reports need steps that follow each
// other, so that every moment belongs to one of them:
//
//   thread 1  ▕ step 0 ▏▕ step 1 ▏▕ step 2 ▏      kept: the thread with most steps
//   thread 2     ▕ step 10 ▏                      left out: of another thread, at the same time
//
//   thread 1  ▕ step 0                     ▏      left out: around more steps than there are
//              ▕ step 1 ▏▕ step 2 ▏               like it. Else those inside it would be.
//
//   thread 1  ▕ step 0   ▏                        ends where the next one begins
//                   ▕ step 1 ▏
//
// All three are counted. Steps of another thread that come before or after the loop's are kept: a
// loop may change its thread.
//
// Threads: pure functions. Memory: per step.
#ifndef PROFD_DAEMON_IMPORT_LOOP_STEPS_H_
#define PROFD_DAEMON_IMPORT_LOOP_STEPS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "daemon/import/not_understood.h"

namespace profd::importer {

struct LoopStep {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t thread;
};

// `steps` are by number.
void KeepStepsOfOneLoop(absl::flat_hash_map<int64_t, LoopStep>& steps,
                        NotUnderstood& not_understood);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_LOOP_STEPS_H_
