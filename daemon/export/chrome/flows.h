// ChromeFlows writes the arrows that an imported trace had, each at the event where it was. A trace
// without arrows has none here: then the export draws its own.
//
// Threads: one.
#ifndef PROFD_DAEMON_EXPORT_CHROME_FLOWS_H_
#define PROFD_DAEMON_EXPORT_CHROME_FLOWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/clock.h"
#include "daemon/export/trace/source_arguments.h"

namespace profd::exporter {

class ChromeFlows {
 public:
  // Borrows both. A merged trace has only arrows of its own, because numbers of several traces are
  // the same.
  ChromeFlows(SourceArguments& source, bool is_merged, OutputBuffer& out);

  bool has_any() const { return has_any_; }
  // Of arrows that are not at an event; 0 if none is below 0.
  int64_t earliest_ns() const { return earliest_ns_; }

  // The arrows at an event that was just written at `ts`. `of`, `thread`, and `number` as
  // ArgumentRow has them; `row`: `"pid":1,"tid":2,"ts":`
  void Write(uint8_t of, uint32_t thread, uint32_t number, std::string_view row, uint64_t ts);
  // Those that are not at an event. Last, so that an import does not find them at one.
  void WriteLoose(const TraceClock& clock);

 private:
  // An arrow without its number and place. `head` is empty if it cannot be shown.
  struct Shape {
    bool is_known = false;
    std::string head;  // `,{"ph":"s"`
    std::string tail;  // `,"cat":"ac2g","name":"ac2g"}`
  };
  struct Loose {
    std::string head;  // `,{"ph":"s"`
    std::string row;   // `"pid":1,"tid":2,"ts":`
    std::string tail;
    int64_t time_ns;
    SourceArguments::Argument id;
  };

  const Shape& ShapeOf(const SourceArguments::Argument& flow);
  void FindLoose();
  void WriteOne(std::string_view head, const SourceArguments::Argument& id, std::string_view row,
                uint64_t ts, std::string_view tail);

  SourceArguments& source_;
  OutputBuffer& out_;
  bool has_any_ = false;
  int64_t earliest_ns_ = 0;
  std::vector<Shape> shapes_;  // By key.
  std::vector<Loose> loose_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_FLOWS_H_
