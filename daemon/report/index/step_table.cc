#include "daemon/report/index/step_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
