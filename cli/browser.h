// A browser for people who sit at this machine.
//
// Threads: one.
#ifndef PROFD_CLI_BROWSER_H_
#define PROFD_CLI_BROWSER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace profd::cli {

using GetEnvironment = std::function<const char*(const char*)>;

// Whether profctl runs in an ssh session: a browser that it started would not be where the
// person is.
bool IsSshSession(const GetEnvironment& environment);

// The command that opens `url`: $BROWSER (its first, with %s for the address, or the address
// behind it), or xdg-open where there is a desktop. Nothing: there is no browser, or it is an ssh
// session.
std::optional<std::vector<std::string>> BrowserCommand(const std::string& url,
                                                       const GetEnvironment& environment);

// Starts it with nothing of ours open. False: it cannot be started.
bool StartBrowser(const std::vector<std::string>& command);

}  // namespace profd::cli

#endif  // PROFD_CLI_BROWSER_H_
