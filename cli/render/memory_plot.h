// Memory over time, drawn with characters.
//
//   1.50 GiB |                 AAAA         what is there by category, each with its letter
//            |        GGGG    AAAAATT       (- is what the allocator had reserved)
//            |OOOOOOOOOOOOOOOOOOOOOOO
//        0 B |PPPPPPPPPPPPPPPPPPPPPPP
//            +-----------------------
//             0.000us         12.000ms
#ifndef PROFD_CLI_RENDER_MEMORY_PLOT_H_
#define PROFD_CLI_RENDER_MEMORY_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/style.h"
#include "daemon/report/memory/memory_report.h"

namespace profd::cli {

// `samples` as a plot of `columns` by `rows` characters, with axes; each column is the sample of
// its time that has most allocated. A sample holds until the next; the last until `end_ns`. Empty:
// there are no samples. Bars are of one kind, in eighths of a character, where there is one layer
// only; else of letters, whose meanings stand below.
std::string PlotMemory(const std::vector<report::MemorySample>& samples, int64_t end_ns,
                       int columns, int rows, const Style& style);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_MEMORY_PLOT_H_
