// Where NVIDIA's driver has put its GPUs: the numbers under which dcgm-exporter and nvidia-smi know
// them, which a process does not see (CUDA_VISIBLE_DEVICES gives it numbers of its own). UUIDs are
// the same everywhere and join the two.
//
// Threads: pure functions; reads files.
#ifndef PROFD_DAEMON_METRICS_GPU_PLACES_H_
#define PROFD_DAEMON_METRICS_GPU_PLACES_H_

#include <filesystem>
#include <map>
#include <string>

namespace profd::metrics {

struct GpuPlace {
  std::string gpu;         // "0": in the order of the bus, as nvidia-smi counts.
  std::string device;      // "nvidia0"
  std::string pci_bus_id;  // "00000000:3B:00.0"
};

inline constexpr char kNvidiaGpusFolder[] = "/proc/driver/nvidia/gpus";

// By UUID in lower case ("gpu-8c2a..."). Empty where there is no such driver.
std::map<std::string, GpuPlace> ReadGpuPlaces(
    const std::filesystem::path& folder = kNvidiaGpusFolder);

// A UUID as the keys are.
std::string GpuPlaceKey(std::string uuid);

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_GPU_PLACES_H_
