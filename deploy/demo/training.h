// The training loop of the demo: steps, and in each of them the data, the network and the loss.
#ifndef PROFD_DEPLOY_DEMO_TRAINING_H_
#define PROFD_DEPLOY_DEMO_TRAINING_H_

#include <string>

#include "deploy/demo/device.h"
#include "deploy/demo/options.h"

namespace profd::demo {

// Trains until the last step, SIGTERM or SIGINT; blocks those two in the calling thread, and so in
// all that it makes. `device`: nullptr for none. `device_note` says what it is, for those who read
// the output; empty for none. Returns the exit code: 0 if the loss, over data it never trained on,
// fell, else 1.
int Train(const Options& options, const std::string& job, Device* device,
          const std::string& device_note);

}  // namespace profd::demo

#endif  // PROFD_DEPLOY_DEMO_TRAINING_H_
