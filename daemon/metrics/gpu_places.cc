#include "daemon/metrics/gpu_places.h"

#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "daemon/base/str_cat.h"

namespace profd::metrics {
namespace {

constexpr size_t kMostGpus = 64;
constexpr int kMostLines = 64;

struct Found {
  std::string uuid;
  std::string minor;
  std::string bus;  // "0000:3b:00.0"
};

// "Name:   value" lines.
Found ReadInformation(const std::filesystem::path& file) {
  Found found;
  std::ifstream in(file);
  std::string line;
  for (int count = 0; count < kMostLines && std::getline(in, line); ++count) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(0, colon);
    const std::string value(
        absl::StripAsciiWhitespace(ToAbsl(std::string_view(line).substr(colon + 1))));
    if (name == "GPU UUID") {
      found.uuid = value;
    } else if (name == "Device Minor") {
      found.minor = value;
    } else if (name == "Bus Location") {
      found.bus = value;
    }
  }
  return found;
}

}  // namespace

std::string GpuPlaceKey(std::string uuid) {
  absl::AsciiStrToLower(&uuid);
  return uuid;
}

std::map<std::string, GpuPlace> ReadGpuPlaces(const std::filesystem::path& folder) {
  std::map<std::string, Found> by_bus;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    Found found = ReadInformation(entry->path() / "information");
    if (found.uuid.empty() || found.bus.empty() || by_bus.size() == kMostGpus) continue;
    std::string bus = found.bus;
    by_bus.emplace(std::move(bus), std::move(found));
  }
  std::map<std::string, GpuPlace> places;
  int number = 0;
  for (auto& [bus, found] : by_bus) {
    std::string id = absl::AsciiStrToUpper(bus);
    // NVML writes the domain with eight digits, the driver's folder with four.
    if (id.find(':') == 4) id.insert(0, "0000");
    places[GpuPlaceKey(found.uuid)] = {.gpu = StrCat(number++),
                                       .device = StrCat("nvidia", found.minor),
                                       .pci_bus_id = std::move(id)};
  }
  return places;
}

}  // namespace profd::metrics
