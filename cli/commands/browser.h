// A browser for people who sit at this machine.
//
// Threads: one.
#ifndef PROFD_CLI_COMMANDS_BROWSER_H_
#define PROFD_CLI_COMMANDS_BROWSER_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace profd::cli {

using GetEnvironment = std::function<const char*(const char*)>;

// Whether profctl runs in an ssh session: a browser that it started would not be where the
// person is.
bool IsSshSession(const GetEnvironment& environment);

// The command that opens `url`: $BROWSER (its first, with %s for the address, or the address
// after it), or xdg-open where there is a desktop. Nothing: there is no browser, or it is an ssh
// session.
std::optional<std::vector<std::string>> BrowserCommand(const std::string& url,
                                                       const GetEnvironment& environment);

// Writes a page into `folder` (private to the user) that sends the browser on to `url`, and returns
// the page's file:// URL. Every user of the machine can read a process's arguments, so a secret URL
// must not be one. Errors: UNKNOWN or another code for the errno of the failed call.
absl::StatusOr<std::string> WriteRedirectPage(const std::filesystem::path& folder,
                                              std::string_view url);

// Starts `command` with /dev/null as its standard files. Returns false if it cannot be started.
bool StartBrowser(const std::vector<std::string>& command);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_BROWSER_H_
