// ByName keeps what a function says of each name of a capture, so that it looks at a name once,
// however many rows have it.
//
//   ByName<bool> is_copy(reader.names(), &IsCopyCall);
//   if (is_copy.Of(batch.name[i])) ...
//
// Threads: one at a time. The names must outlive it.
#ifndef PROFD_DAEMON_REPORT_INDEX_BY_NAME_H_
#define PROFD_DAEMON_REPORT_INDEX_BY_NAME_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace profd::report {

template <typename Value>
class ByName {
 public:
  ByName(std::span<const std::string> names, Value (*look)(std::string_view))
      : names_(names), look_(look), known_(names.size()) {}

  const Value& Of(uint32_t name) {
    std::optional<Value>& known = known_[name];
    if (!known.has_value()) known = look_(names_[name]);
    return *known;
  }

 private:
  const std::span<const std::string> names_;
  Value (*const look_)(std::string_view);
  std::vector<std::optional<Value>> known_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_BY_NAME_H_
