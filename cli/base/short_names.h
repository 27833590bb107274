// Shortens names to a width so that different names stay different: three kernels must not all
// read "sm90_xmma_gemm_f...".
//
// Threads: pure functions. Text is valid UTF-8.
#ifndef PROFD_CLI_BASE_SHORT_NAMES_H_
#define PROFD_CLI_BASE_SHORT_NAMES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace profd::cli {

// `text` if it fits, else its beginning, "…", and its last `tail` columns, at most `width` columns.
std::string CutMiddle(std::string_view text, size_t width, size_t tail);

// Each name in at most `width` columns, by a cut in the middle. Different names have different
// results, if `width` is at least 16: where no cut tells them apart, they are numbered ("…~2").
std::vector<std::string> ShortenNames(const std::vector<std::string>& names, size_t width);

// `command` (argv, joined by blanks) as people name it: without the folders of the program, and
// without Python in front of a script or module: "/usr/bin/python3 -u /job/train.py --lr 1" is
// "train.py --lr 1".
std::string ShortCommand(std::string_view command);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_SHORT_NAMES_H_
