// OperatorTexts are the inputs of operators as traces have them: JSON that stands in the capture
// file ready to be copied. A stranger may have written the file, so that all of it is checked
// before any is copied: each has to be the list it should be, and not too long.
//
// Threads:   one.
// Ownership: borrows the reader.
#ifndef PROFD_DAEMON_EXPORT_TRACE_OPERATOR_TEXTS_H_
#define PROFD_DAEMON_EXPORT_TRACE_OPERATOR_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// [[16,64],[],[[3,4],[3,4]]]: lists of integers, or of such lists, in a list.
bool IsDimsJson(std::string_view untrusted);
// ["float","Scalar",""]
bool IsStringsJson(std::string_view untrusted);

class OperatorTexts {
 public:
  // Of dims, types and strides together, and of scalars: more than fits a record of the wire.
  static constexpr size_t kMostBytes = size_t{24} << 10;

  explicit OperatorTexts(const store::CaptureReader& reader);

  // nullptr: there are none, or they were left out.
  const OperatorInputs* InputsAt(uint32_t index) const;
  // Empty: there are none, or they were left out.
  std::string_view ScalarsAt(uint32_t index) const;

  // Distinct ones that were not what they should be.
  int64_t left_out() const { return left_out_; }

 private:
  const store::CaptureReader& reader_;
  std::vector<bool> inputs_;   // By index: whether they may be shown.
  std::vector<bool> scalars_;  // Likewise.
  int64_t left_out_ = 0;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_OPERATOR_TEXTS_H_
