// The XML of object storage's answers, as a small tree. Parsed with Expat, within limits: answers
// come from the network.
#ifndef PROFD_DAEMON_ARCHIVE_S3_XML_H_
#define PROFD_DAEMON_ARCHIVE_S3_XML_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace profd::archive {

struct XmlElement {
  std::string name;  // Without a namespace.
  std::string text;
  std::vector<XmlElement> children;

  const XmlElement* child(std::string_view child_name) const;      // The first; nullptr: none.
  std::string_view child_text(std::string_view child_name) const;  // Empty: none.
};

inline constexpr int kMaxXmlDepth = 16;
inline constexpr int kMaxXmlElements = 100'000;

// Returns the root. DATA_LOSS: not well-formed, has a DOCTYPE, or is beyond a limit.
absl::StatusOr<XmlElement> ParseXml(std::string_view text);

}  // namespace profd::archive

#endif  // PROFD_DAEMON_ARCHIVE_S3_XML_H_
