// Memory as a report: what a daemon answers, and what `profctl memory` makes of the answer.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/report/memory/memory_report.h"

namespace profd::report {
namespace {

using table::BytesColumn;
using table::CountColumn;
using table::IfKnown;
using table::NsColumn;
using table::Path;
using table::PlainColumn;
using table::RowsOf;

constexpr std::string_view kName = "memory";

// A row of a device that names it, as all rows but those of the devices do.
template <typename Row>
struct Of : Row {
  std::string of;
};
template <typename Row>
table::Field<Of<Row>> DeviceField() {
  return {&Of<Row>::of, PlainColumn("device", "Device", "The device, such as cuda:0")};
}

const table::Description<DeviceMemoryReport>& DeviceColumns() {
  using Device = DeviceMemoryReport;
  constexpr auto kMemory = &Device::memory;
  constexpr auto kGrowth = &Device::growth;
  static const table::Description<Device> columns = {
      {Path<kMemory, &DeviceMemory::device>(),
       PlainColumn("device", "Device", "The device, such as cuda:0")},
      {Path<kMemory, &DeviceMemory::relative>(),
       PlainColumn(
           "relative", "Relative",
           "Whether bytes count from 0 at the window's start, because the total is not known")},
      {&Device::capacity_bytes,
       IfKnown(BytesColumn("capacity_bytes", "Capacity", "Memory of the device"))},
      {Path<kMemory, &DeviceMemory::peak_bytes>(),
       BytesColumn("peak_bytes", "Peak", "The most that was allocated at once")},
      {Path<kMemory, &DeviceMemory::peak_time_ns>(),
       NsColumn("peak_time_ns", "Peak at", "When that was")},
      {&Device::reserved_at_peak_bytes,
       IfKnown(BytesColumn("reserved_at_peak_bytes", "Reserved at peak",
                           "What the allocator had reserved then"))},
      {Path<kMemory, &DeviceMemory::start_bytes>(),
       BytesColumn("start_bytes", "Start", "Allocated when the window began")},
      {Path<kMemory, &DeviceMemory::end_bytes>(),
       BytesColumn("end_bytes", "End", "Allocated when it ended")},
      {Path<kMemory, &DeviceMemory::peak_reserved_bytes>(),
       IfKnown(BytesColumn("peak_reserved_bytes", "Peak reserved",
                           "The most that the allocator reserved"))},
      {&Device::peak_reserved_time_ns,
       IfKnown(NsColumn("peak_reserved_time_ns", "Peak reserved at", "When that was"))},
      {&Device::allocated_at_peak_reserved_bytes,
       IfKnown(BytesColumn("allocated_at_peak_reserved_bytes", "Allocated at peak reserved",
                           "What of it was allocated then"))},
      {Path<kMemory, &DeviceMemory::allocation_count>(),
       CountColumn("allocation_count", "Allocations", "Number of allocations")},
      {Path<kMemory, &DeviceMemory::free_count>(),
       CountColumn("free_count", "Frees", "Number of frees")},
      {Path<kMemory, &DeviceMemory::allocated_total_bytes>(),
       BytesColumn("allocated_total_bytes", "Allocated in total", "Sum over allocations")},
      {Path<kMemory, &DeviceMemory::unknown_free_count>(),
       CountColumn("unknown_free_count", "Older frees", "Frees of blocks from before the window")},
      {Path<kMemory, &DeviceMemory::unknown_free_bytes>(),
       BytesColumn("unknown_free_bytes", "Older freed", "Their bytes")},
      {Path<kMemory, &DeviceMemory::repeated_free_count>(),
       CountColumn("repeated_free_count", "Repeated frees",
                   "Frees of an address that was freed before; they change no level")},
      {Path<kMemory, &DeviceMemory::peak_older_bytes>(),
       BytesColumn("peak_older_bytes", "Older at peak",
                   "Alive at the peak, allocated before the window")},
      {Path<kMemory, &DeviceMemory::peak_unknown_bytes>(),
       BytesColumn("peak_unknown_bytes", "Unknown at peak",
                   "Alive at the peak, in no block of known size")},
      {Path<kGrowth, &MemoryGrowth::step_count>(),
       CountColumn("growth_step_count", "Steps", "Steps that growth is judged by; 3 at least")},
      {Path<kGrowth, &MemoryGrowth::rising_count>(),
       CountColumn("growth_rising_count", "Rising steps",
                   "Of them, those that ended higher than the step before")},
      {Path<kGrowth, &MemoryGrowth::bytes_per_step>(),
       BytesColumn("growth_bytes_per_step", "Growth per step", "Median slope from step to step")},
      {Path<kGrowth, &MemoryGrowth::unknown_because>(),
       PlainColumn("growth_unknown_because", "Growth unknown because",
                   "Why growth is not known, although the level rises")}};
  return columns;
}

template <size_t kLayer>
table::Field<Of<MemorySample>> LayerField() {
  const std::string layer(ToString(static_cast<MemoryLayer>(kLayer)));
  return {Path<&Of<MemorySample>::layer_bytes, kLayer>(),
          BytesColumn(StrCat(layer, "_bytes"), layer, StrCat("Allocated bytes that are ", layer))};
}

const table::Description<Of<MemorySample>>& SampleColumns() {
  using SampleCells = Of<MemorySample>;
  static_assert(kMemoryLayers == 9);
  static const table::Description<SampleCells> columns = {
      DeviceField<MemorySample>(),
      {&SampleCells::time_ns, NsColumn("time_ns", "Time", "When the level changed to this")},
      {&SampleCells::allocated_bytes,
       BytesColumn("allocated_bytes", "Allocated", "Allocated bytes")},
      {&SampleCells::reserved_bytes,
       IfKnown(BytesColumn("reserved_bytes", "Reserved", "Bytes that the allocator reserved"))},
      LayerField<0>(),
      LayerField<1>(),
      LayerField<2>(),
      LayerField<3>(),
      LayerField<4>(),
      LayerField<5>(),
      LayerField<6>(),
      LayerField<7>(),
      LayerField<8>()};
  return columns;
}

// Which list of a device a share is of.
constexpr std::string_view kPeakByCategory = "peak_by_category";
constexpr std::string_view kPeakByOp = "peak_by_op";
constexpr std::string_view kPeakByModule = "peak_by_module";
constexpr std::string_view kPeakByLifetime = "peak_by_lifetime";
constexpr std::string_view kOlderByCategory = "peak_older_by_category";
constexpr std::string_view kSuspectsByOp = "suspects_by_op";

struct ShareRow : MemoryShare {
  std::string of;
  std::string list;
};

// Calls fn(list's name, list) for each.
template <typename Device, typename Fn>
void ForEachShareList(Device& device, Fn fn) {
  fn(kPeakByCategory, device.memory.peak_by_category);
  fn(kPeakByOp, device.memory.peak_by_op);
  fn(kPeakByModule, device.peak_by_module);
  fn(kPeakByLifetime, device.peak_by_lifetime);
  fn(kOlderByCategory, device.peak_older_by_category);
  fn(kSuspectsByOp, device.growth.suspects_by_op);
}

const table::Description<ShareRow>& ShareColumns() {
  static const table::Description<ShareRow> columns = {
      {&ShareRow::of, PlainColumn("device", "Device", "The device, such as cuda:0")},
      {&ShareRow::list,
       PlainColumn(
           "list", "List",
           "What the memory alive at the peak is broken down by; suspects_by_op: what grows")},
      {&ShareRow::name, PlainColumn("name", "Name", "The category, operator, module, or lifetime")},
      {&ShareRow::bytes, BytesColumn("bytes", "Bytes", "Bytes of its blocks")},
      {&ShareRow::blocks, CountColumn("blocks", "Blocks", "Number of its blocks")}};
  return columns;
}

const table::Description<Of<MemoryCategoryUse>>& CategoryColumns() {
  using CategoryCells = Of<MemoryCategoryUse>;
  static const table::Description<CategoryCells> columns = {
      DeviceField<MemoryCategoryUse>(),
      {&CategoryCells::name,
       PlainColumn("name", "Category",
                   "What memory was for: parameter, gradient, optimizer_state, buffer, input, "
                   "activation, temporary, or unknown")},
      {&CategoryCells::peak_bytes, BytesColumn("peak_bytes", "Peak", "The most at once")},
      {&CategoryCells::byte_seconds,
       PlainColumn("byte_seconds", "Byte seconds", "The integral of its bytes over the window")},
      {&CategoryCells::block_count, CountColumn("block_count", "Blocks", "Number of its blocks")}};
  return columns;
}

struct BlockRow : MemoryBlock {
  std::string of;
  std::string ranges;  // MemoryBlock::stack, each range with its length.
};

// "4:step9:aten::add": any byte may be in a name.
std::string Packed(const std::vector<std::string>& names) {
  std::string packed;
  for (const std::string& name : names) StrAppend(&packed, name.size(), ":", name);
  return packed;
}

// False: it was not packed so.
bool Unpack(std::string_view packed, std::vector<std::string>& names) {
  while (!packed.empty()) {
    size_t length = 0;
    size_t at = 0;
    for (; at < packed.size() && packed[at] >= '0' && packed[at] <= '9' && at < 9; ++at) {
      length = 10 * length + static_cast<size_t>(packed[at] - '0');
    }
    if (at == 0 || at == packed.size() || packed[at] != ':') return false;
    packed.remove_prefix(at + 1);
    if (length > packed.size()) return false;
    names.emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  return true;
}

const table::Description<BlockRow>& BlockColumns() {
  static const table::Description<BlockRow> columns = {
      {&BlockRow::of, PlainColumn("device", "Device", "The device, such as cuda:0")},
      {&BlockRow::bytes,
       BytesColumn("bytes", "Bytes", "Size of a block that was alive at the peak")},
      {&BlockRow::allocated_ns, NsColumn("allocated_ns", "Allocated", "When it was allocated")},
      {&BlockRow::freed_ns, IfKnown(NsColumn("freed_ns", "Freed", "When it was freed"))},
      {&BlockRow::step, IfKnown(PlainColumn("step", "Step", "The step that allocated it"))},
      {&BlockRow::category, PlainColumn("category", "Category", "What it was for")},
      {&BlockRow::op, PlainColumn("op", "Op", "The outermost operator around the allocation")},
      {&BlockRow::module, PlainColumn("module", "Module", "The module that it was allocated in")},
      {&BlockRow::ranges,
       PlainColumn("ranges", "Ranges",
                   "All ranges around the allocation, outermost first, each as LENGTH:NAME")}};
  return columns;
}

const table::Description<Of<MemoryStepRow>>& StepColumns() {
  using StepCells = Of<MemoryStepRow>;
  static const table::Description<StepCells> columns = {
      DeviceField<MemoryStepRow>(),
      {&StepCells::step, PlainColumn("step", "Step", "Number of the step")},
      {&StepCells::start_bytes, BytesColumn("start_bytes", "Start", "Allocated when it began")},
      {&StepCells::end_bytes, BytesColumn("end_bytes", "End", "Allocated when it ended")},
      {&StepCells::lowest_bytes, BytesColumn("lowest_bytes", "Lowest", "The least in it")},
      {&StepCells::peak_bytes, BytesColumn("peak_bytes", "Peak", "The most in it")},
      {&StepCells::peak_reserved_bytes,
       IfKnown(BytesColumn("peak_reserved_bytes", "Reserved", "The most that was reserved"))},
      {&StepCells::allocation_count,
       CountColumn("allocation_count", "Allocations", "Number of allocations in it")},
      {&StepCells::allocated_total_bytes,
       BytesColumn("allocated_total_bytes", "Allocated in total", "Their bytes, summed")},
      {&StepCells::kept_bytes,
       IfKnown(BytesColumn(
           "kept_bytes", "Kept",
           "Allocated in it and alive when the window ended; not known of the last step"))},
      {&StepCells::kept_blocks,
       IfKnown(CountColumn("kept_blocks", "Kept blocks", "Number of these blocks"))}};
  return columns;
}

const table::Description<FailedAllocation>& FailedColumns() {
  using Failed = FailedAllocation;
  static const table::Description<Failed> columns = {
      {Path<&Failed::asked, &OutOfMemory::time_ns>(),
       NsColumn("time_ns", "Time", "When an allocation failed")},
      {Path<&Failed::asked, &OutOfMemory::device>(),
       PlainColumn("device", "Device", "The device, such as cuda:0")},
      {Path<&Failed::asked, &OutOfMemory::bytes>(),
       BytesColumn("bytes", "Bytes", "What was asked for")},
      {&Failed::step, IfKnown(PlainColumn("step", "Step", "The step that it was in"))},
      {&Failed::allocated_bytes,
       IfKnown(BytesColumn("allocated_bytes", "Allocated", "Allocated on the device then"))},
      {&Failed::reserved_bytes,
       IfKnown(BytesColumn("reserved_bytes", "Reserved", "Reserved then"))},
      {&Failed::capacity_bytes,
       IfKnown(BytesColumn("capacity_bytes", "Capacity", "Memory of the device"))},
      {&Failed::op, PlainColumn("op", "Op", "The operator that asked; empty: not known")}};
  return columns;
}

template <typename Row>
void Append(const std::string& device, const std::vector<Row>& rows, std::vector<Of<Row>>& all) {
  for (const Row& row : rows) all.push_back({row, device});
}

// Devices by name, to put the rows of the other tables into them.
using DevicesByName = absl::flat_hash_map<std::string, DeviceMemoryReport*>;

// Reads a table, and appends each row to the list that `list_of` says of its device.
template <typename Row, typename ListOf>
absl::Status Distribute(const table::Report& report, std::string_view key,
                        const table::Description<Row>& columns, const DevicesByName& devices,
                        ListOf list_of) {
  ASSIGN_OR_RETURN(std::vector<Row> rows, RowsOf(report, key, columns));
  for (Row& row : rows) {
    const auto device = devices.find(row.of);
    if (device == devices.end()) return table::DoNotFitTogether();
    auto* const list = list_of(*device->second, row);
    if (list == nullptr) return table::DoNotFitTogether();
    list->push_back(std::move(row));
  }
  return absl::OkStatus();
}

std::vector<MemoryShare>* ShareListOf(DeviceMemoryReport& device, const ShareRow& row) {
  std::vector<MemoryShare>* found = nullptr;
  ForEachShareList(device, [&](std::string_view name, std::vector<MemoryShare>& list) {
    if (name == row.list) found = &list;
  });
  return found;
}

}  // namespace

table::Report ToReport(const MemoryReport& memory) {
  std::vector<Of<MemorySample>> samples;
  std::vector<ShareRow> shares;
  std::vector<Of<MemoryCategoryUse>> categories;
  std::vector<BlockRow> blocks;
  std::vector<Of<MemoryStepRow>> steps;
  for (const DeviceMemoryReport& device : memory.devices) {
    const std::string& name = device.memory.device;
    Append(name, device.samples, samples);
    ForEachShareList(device, [&](std::string_view list, const std::vector<MemoryShare>& rows) {
      for (const MemoryShare& row : rows) shares.push_back({row, name, std::string(list)});
    });
    Append(name, device.memory.categories, categories);
    for (const MemoryBlock& block : device.peak_blocks) {
      blocks.push_back({block, name, Packed(block.stack)});
    }
    Append(name, device.steps, steps);
  }
  return {
      .name = std::string(kName),
      .tables = {DeviceColumns().ToTable("devices", memory.devices),
                 CategoryColumns().ToTable("categories", categories),
                 ShareColumns().ToTable("shares", shares), StepColumns().ToTable("steps", steps),
                 BlockColumns().ToTable("peak_blocks", blocks),
                 SampleColumns().ToTable("samples", samples),
                 FailedColumns().ToTable("out_of_memory", memory.out_of_memory)}};
}

absl::StatusOr<MemoryReport> MemoryFrom(const table::Report& report) {
  if (report.name != kName) return table::DoNotFitTogether();
  MemoryReport memory;
  ASSIGN_OR_RETURN(memory.devices, RowsOf(report, "devices", DeviceColumns()));
  DevicesByName devices;
  for (DeviceMemoryReport& device : memory.devices) devices[device.memory.device] = &device;
  if (devices.size() != memory.devices.size()) return table::DoNotFitTogether();
  using Device = DeviceMemoryReport;
  RETURN_IF_ERROR(
      Distribute(report, "categories", CategoryColumns(), devices,
                 [](Device& device, const auto&) { return &device.memory.categories; }));
  RETURN_IF_ERROR(Distribute(report, "shares", ShareColumns(), devices, &ShareListOf));
  RETURN_IF_ERROR(Distribute(report, "steps", StepColumns(), devices,
                             [](Device& device, const auto&) { return &device.steps; }));
  RETURN_IF_ERROR(Distribute(report, "peak_blocks", BlockColumns(), devices,
                             [](Device& device, BlockRow& row) -> std::vector<MemoryBlock>* {
                               return Unpack(row.ranges, row.stack) ? &device.peak_blocks : nullptr;
                             }));
  RETURN_IF_ERROR(Distribute(report, "samples", SampleColumns(), devices,
                             [](Device& device, const auto&) { return &device.samples; }));
  ASSIGN_OR_RETURN(memory.out_of_memory, RowsOf(report, "out_of_memory", FailedColumns()));
  return memory;
}

}  // namespace profd::report
