// Messages about a CaptureSpec in the words of the command line.
#ifndef PROFD_CLI_BASE_SPEC_NAMES_H_
#define PROFD_CLI_BASE_SPEC_NAMES_H_

#include <string>
#include <string_view>

namespace profd::cli {

// `message`, of ValidateSpec(), with the flag for the field that it begins with: "--name is 'x';
// it must be ...". Unchanged if it begins with none.
std::string InNamesOfFlags(std::string_view message);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_SPEC_NAMES_H_
