// The users that tests call as.
#ifndef PROFD_TESTS_FAKES_CALLERS_H_
#define PROFD_TESTS_FAKES_CALLERS_H_

#include "daemon/capture/access.h"

namespace profd {

inline const Caller kAlice{.uid = 1000};
inline const Caller kBob{.uid = 1001};
inline const Caller kRoot{.uid = 0};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_CALLERS_H_
