// The one file that is compiled anew for each CUPTI the stand-in is linked as.
#include "tests/cupti_standin/versions.h"

namespace sgpu {

const uint32_t kDefaultVersion = SGPU_DEFAULT_VERSION;

}  // namespace sgpu
