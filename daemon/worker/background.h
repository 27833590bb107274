// Makes the calling thread give way to training: nice 19 and the idle I/O class. Refusals (a
// seccomp filter) leave the thread as it is. Children inherit both.
#ifndef PROFD_DAEMON_WORKER_BACKGROUND_H_
#define PROFD_DAEMON_WORKER_BACKGROUND_H_

namespace profd::worker {

void YieldToTraining();

}  // namespace profd::worker

#endif  // PROFD_DAEMON_WORKER_BACKGROUND_H_
