// Memory as a report: what a daemon answers, what `profctl memory` makes of the answer, and its
// JSON.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/nested.h"
#include "daemon/base/table/object.h"
#include "daemon/report/memory/memory_report.h"

namespace profd::report {
namespace {

using table::ArraysOf;
using table::BytesColumn;
using table::Column;
using table::CountColumn;
using table::IfKnown;
using table::ListOf;
using table::NestedTable;
using table::NsColumn;
using table::ObjectDescription;
using table::ObjectOf;
using table::Path;
using table::PlainColumn;
using table::ReadNested;
using table::RowsOf;
using table::TextsOf;

using Device = DeviceMemoryReport;

constexpr std::string_view kName = "memory";

// Ranks that have it in common share the row.
Column Key(Column column) {
  column.over_ranks = table::OverRanks::kKey;
  return column;
}

// Of the tables whose rows are in devices.
Column DeviceColumn() { return Key(PlainColumn("device", "Device", "The device, such as cuda:0")); }

constexpr auto kMemory = &Device::memory;

// Without its growth, which is an object of its own in JSON.
std::vector<table::Field<Device>> DeviceFields() {
  return {
      {Path<kMemory, &DeviceMemory::device>(), DeviceColumn()},
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
                           "What the allocator had reserved at that time"))},
      {Path<kMemory, &DeviceMemory::start_bytes>(),
       BytesColumn("start_bytes", "Start", "Allocated when the window began")},
      {Path<kMemory, &DeviceMemory::end_bytes>(),
       BytesColumn("end_bytes", "End", "Allocated when the window ended")},
      {Path<kMemory, &DeviceMemory::peak_reserved_bytes>(),
       IfKnown(BytesColumn("peak_reserved_bytes", "Peak reserved",
                           "The most that the allocator reserved"))},
      {&Device::peak_reserved_time_ns,
       IfKnown(NsColumn("peak_reserved_time_ns", "Peak reserved at", "When that was"))},
      {&Device::allocated_at_peak_reserved_bytes,
       IfKnown(BytesColumn("allocated_at_peak_reserved_bytes", "Allocated at peak reserved",
                           "Allocated bytes at the peak of reserved bytes"))},
      {Path<kMemory, &DeviceMemory::allocation_count>(),
       CountColumn("allocation_count", "Allocations", "Number of allocations")},
      {Path<kMemory, &DeviceMemory::free_count>(),
       CountColumn("free_count", "Frees", "Number of frees")},
      {Path<kMemory, &DeviceMemory::allocated_total_bytes>(),
       BytesColumn("allocated_total_bytes", "Allocated in total", "Sum over allocations")},
      {Path<kMemory, &DeviceMemory::unknown_free_count>(),
       CountColumn("unknown_free_count", "Older frees", "Frees of blocks from before the window")},
      {Path<kMemory, &DeviceMemory::unknown_free_bytes>(),
       BytesColumn("unknown_free_bytes", "Older freed",
                   "Bytes of frees of blocks from before the window")},
      {Path<kMemory, &DeviceMemory::repeated_free_count>(),
       CountColumn("repeated_free_count", "Repeated frees",
                   "Frees of an address that was freed before; they change no level")},
      {Path<kMemory, &DeviceMemory::peak_older_bytes>(),
       BytesColumn("peak_older_bytes", "Older at peak",
                   "Alive at the peak, allocated before the window")},
      {Path<kMemory, &DeviceMemory::peak_unknown_bytes>(),
       BytesColumn("peak_unknown_bytes", "Unknown at peak",
                   "Alive at the peak, in no block of known size")}};
}

// The growth that `kGrowth` leads to; `slope` is its column bytes_per_step.
template <typename Row, auto... kGrowth>
std::vector<table::Field<Row>> GrowthFields(std::string_view prefix, table::Field<Row> slope) {
  slope.column = {.key = StrCat(prefix, "bytes_per_step"),
                  .title = "Growth per step",
                  .doc = "Median slope from step to step",
                  .type = slope.column.type,
                  .unit = table::Unit::kBytes,
                  .nullable = slope.column.nullable,
                  .may_be_negative = slope.column.nullable};
  return {{Path<kGrowth..., &MemoryGrowth::step_count>(),
           CountColumn(StrCat(prefix, "step_count"), "Steps",
                       "Steps that growth is judged by; 3 at least")},
          {Path<kGrowth..., &MemoryGrowth::rising_count>(),
           CountColumn(StrCat(prefix, "rising_count"), "Rising steps",
                       "Steps of these that ended with more memory than the step before")},
          std::move(slope),
          {Path<kGrowth..., &MemoryGrowth::unknown_because>(),
           PlainColumn(StrCat(prefix, "unknown_because"), "Growth unknown because",
                       "Why growth is not known, although the level rises")}};
}

const table::Description<Device>& DeviceColumns() {
  static const table::Description<Device> columns = [] {
    std::vector<table::Field<Device>> fields = DeviceFields();
    for (auto& field : GrowthFields<Device, &Device::growth>(
             "growth_", {Path<&Device::growth, &MemoryGrowth::bytes_per_step>(), {}})) {
      fields.push_back(std::move(field));
    }
    return table::Description<Device>(fields);
  }();
  return columns;
}

template <size_t kLayer>
table::Field<MemorySample> LayerField() {
  const std::string layer(ToString(static_cast<MemoryLayer>(kLayer)));
  return {Path<&MemorySample::layer_bytes, kLayer>(),
          BytesColumn(StrCat(layer, "_bytes"), layer, StrCat("Allocated bytes that are ", layer))};
}

const table::Description<MemorySample>& PointColumns() {
  static const table::Description<MemorySample> columns = {
      {&MemorySample::time_ns, NsColumn("time_ns", "Time", "When the level changed to this")},
      {&MemorySample::allocated_bytes,
       BytesColumn("allocated_bytes", "Allocated", "Allocated bytes")}};
  return columns;
}

const table::Description<MemorySample>& SampleColumns() {
  static_assert(kMemoryLayers == 9);
  static const table::Description<MemorySample> columns = {
      {&MemorySample::time_ns, NsColumn("time_ns", "Time", "When the level changed to this")},
      {&MemorySample::allocated_bytes,
       BytesColumn("allocated_bytes", "Allocated", "Allocated bytes")},
      {&MemorySample::reserved_bytes,
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

constexpr std::string_view kSuspects = "suspects_by_op";
constexpr std::string_view kSuspectsBySource = "suspects_by_source";

// Calls fn(name, meaning, path from a device) for each list of what was alive at the peak.
template <typename Fn>
void ForEachPeakList(Fn fn) {
  fn("peak_by_category", "Memory alive at the peak, by what it was for",
     Path<kMemory, &DeviceMemory::peak_by_category>());
  fn("peak_by_op", "Memory alive at the peak, by the outermost operator around the allocation",
     Path<kMemory, &DeviceMemory::peak_by_op>());
  fn("peak_by_module", "Memory alive at the peak, by the module that it was allocated in",
     Path<&Device::peak_by_module>());
  fn("peak_by_lifetime", "Memory alive at the peak, by how long its blocks lived",
     Path<&Device::peak_by_lifetime>());
  fn("peak_older_by_category",
     "The part of peak_by_category that was allocated before the window, in blocks of known size",
     Path<&Device::peak_older_by_category>());
}

// Also for what grows.
template <typename Fn>
void ForEachShareList(Fn fn) {
  ForEachPeakList(fn);
  fn(kSuspects, "", Path<&Device::growth, &MemoryGrowth::suspects_by_op>());
  fn(kSuspectsBySource, "", Path<&Device::growth, &MemoryGrowth::suspects_by_source>());
}

const table::Description<MemoryShare>& ShareColumns() {
  static const table::Description<MemoryShare> columns = {
      {&MemoryShare::name,
       Key(PlainColumn("name", "Name", "The category, operator, module, lifetime, or line"))},
      {&MemoryShare::bytes, BytesColumn("bytes", "Bytes", "Bytes of its blocks")},
      {&MemoryShare::blocks, CountColumn("blocks", "Blocks", "Number of its blocks")}};
  return columns;
}

const table::Description<MemoryCategoryUse>& CategoryColumns() {
  using Row = MemoryCategoryUse;
  static const table::Description<Row> columns = {
      {&Row::name,
       Key(PlainColumn("name", "Category",
                       "What memory was for: parameter, gradient, optimizer_state, buffer, input, "
                       "activation, temporary, or unknown"))},
      {&Row::peak_bytes, BytesColumn("peak_bytes", "Peak", "The most at once")},
      {&Row::byte_seconds,
       PlainColumn("byte_seconds", "Byte seconds", "The integral of its bytes over the window")},
      {&Row::block_count, CountColumn("block_count", "Blocks", "Number of its blocks")}};
  return columns;
}

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

// Without its stack, which is a list in JSON.
std::vector<table::Field<MemoryBlock>> BlockFields() {
  return {
      {&MemoryBlock::bytes,
       BytesColumn("bytes", "Bytes", "Size of a block that was alive at the peak")},
      {&MemoryBlock::allocated_ns, NsColumn("allocated_ns", "Allocated", "When it was allocated")},
      {&MemoryBlock::freed_ns, IfKnown(NsColumn("freed_ns", "Freed", "When it was freed"))},
      {&MemoryBlock::step, IfKnown(PlainColumn("step", "Step", "The step that allocated it"))},
      {&MemoryBlock::category, PlainColumn("category", "Category", "What it was for")},
      {&MemoryBlock::op, PlainColumn("op", "Op", "The outermost operator around the allocation")},
      {&MemoryBlock::module,
       PlainColumn("module", "Module", "The module that it was allocated in")}};
}

const table::Description<MemoryBlock>& BlockColumns() {
  static const table::Description<MemoryBlock> columns = [] {
    std::vector<table::Field<MemoryBlock>> fields = BlockFields();
    fields.emplace_back(
        [](const MemoryBlock& block) { return Packed(block.stack); },
        PlainColumn("ranges", "Ranges",
                    "All ranges around the allocation, outermost first, each as LENGTH:NAME"));
    return table::Description<MemoryBlock>(fields);
  }();
  return columns;
}

const table::Description<MemoryStepRow>& StepColumns() {
  using Row = MemoryStepRow;
  static const table::Description<Row> columns = {
      {&Row::step, Key(PlainColumn("step", "Step", "Number of the step"))},
      {&Row::start_bytes, BytesColumn("start_bytes", "Start", "Allocated when the step began")},
      {&Row::end_bytes, BytesColumn("end_bytes", "End", "Allocated when the step ended")},
      {&Row::lowest_bytes, BytesColumn("lowest_bytes", "Lowest", "Least allocated in the step")},
      {&Row::peak_bytes, BytesColumn("peak_bytes", "Peak", "Most allocated in the step")},
      {&Row::peak_reserved_bytes,
       IfKnown(BytesColumn("peak_reserved_bytes", "Reserved", "The most that was reserved"))},
      {&Row::allocation_count,
       CountColumn("allocation_count", "Allocations", "Number of allocations in it")},
      {&Row::allocated_total_bytes, BytesColumn("allocated_total_bytes", "Allocated in total",
                                                "Bytes of the allocations in the step, summed")},
      {&Row::kept_bytes,
       IfKnown(BytesColumn(
           "kept_bytes", "Kept",
           "Allocated in it and alive when the window ended; not known of the last step"))},
      {&Row::kept_blocks,
       IfKnown(CountColumn("kept_blocks", "Kept blocks", "Number of these blocks"))}};
  return columns;
}

const table::Description<FailedAllocation>& FailedColumns() {
  using Failed = FailedAllocation;
  static const table::Description<Failed> columns = {
      {Path<&Failed::asked, &OutOfMemory::time_ns>(),
       NsColumn("time_ns", "Time", "When an allocation failed")},
      {Path<&Failed::asked, &OutOfMemory::device>(), DeviceColumn()},
      {Path<&Failed::asked, &OutOfMemory::bytes>(),
       BytesColumn("bytes", "Bytes", "What was asked for")},
      {&Failed::step,
       IfKnown(PlainColumn("step", "Step", "The step that the failed allocation was in"))},
      {&Failed::allocated_bytes,
       IfKnown(BytesColumn("allocated_bytes", "Allocated", "Allocated on the device then"))},
      {&Failed::reserved_bytes,
       IfKnown(BytesColumn("reserved_bytes", "Reserved", "Reserved then"))},
      {&Failed::capacity_bytes,
       IfKnown(BytesColumn("capacity_bytes", "Capacity", "Memory of the device"))},
      {&Failed::op, PlainColumn("op", "Op", "The operator that asked; empty: not known")}};
  return columns;
}

// Devices by name, to put the rows of the other tables into them.
using DevicesByName = absl::flat_hash_map<std::string, Device*>;

// Reads a table, and appends each row to the list that `list_of` says of its device and of the cell
// of its column `more`.
template <typename Row, typename ListOfRow>
absl::Status Distribute(const table::Report& report, std::string_view key, std::string_view more,
                        const table::Description<Row>& columns, const DevicesByName& devices,
                        ListOfRow list_of) {
  return ReadNested(report, key, {"device", more}, columns,
                    [&](std::span<const std::string_view> in, Row row) {
                      const auto device = devices.find(ToAbsl(in[0]));
                      if (device == devices.end()) return false;
                      std::vector<Row>* const list = list_of(*device->second, in[1], row);
                      if (list != nullptr) list->push_back(std::move(row));
                      return list != nullptr;
                    });
}

template <typename Row, typename Get>
absl::Status Distribute(const table::Report& report, std::string_view key,
                        const table::Description<Row>& columns, const DevicesByName& devices,
                        Get get) {
  return Distribute(report, key, "device", columns, devices,
                    [&](Device& device, std::string_view, const Row&) { return &get(device); });
}

std::vector<MemoryShare>* ShareListOf(Device& device, std::string_view name,
                                      const MemoryShare& /*row*/) {
  std::vector<MemoryShare>* found = nullptr;
  ForEachShareList([&](std::string_view list, std::string_view, auto path) {
    if (list == name) found = &path.Of(device);
  });
  return found;
}

std::vector<MemoryBlock>* BlockListOf(Device& device, std::string_view ranges, MemoryBlock& row) {
  return Unpack(ranges, row.stack) ? &device.peak_blocks : nullptr;
}

// ---- As JSON.

const ObjectDescription<MemoryShare>& ShareObject() {
  static const ObjectDescription<MemoryShare> object(ShareColumns());
  return object;
}
const ObjectDescription<MemoryCategoryUse>& CategoryObject() {
  static const ObjectDescription<MemoryCategoryUse> object(CategoryColumns());
  return object;
}
const ObjectDescription<MemoryStepRow>& StepObject() {
  static const ObjectDescription<MemoryStepRow> object(StepColumns());
  return object;
}
const ObjectDescription<FailedAllocation>& FailedObject() {
  static const ObjectDescription<FailedAllocation> object(FailedColumns());
  return object;
}

const ObjectDescription<MemoryBlock>& BlockObject() {
  static const ObjectDescription<MemoryBlock> object(
      table::Description<MemoryBlock>(BlockFields()),
      {TextsOf<MemoryBlock>(
          "stack", "All ranges around the allocation, outermost first",
          [](const MemoryBlock& block) -> const auto& { return block.stack; })});
  return object;
}

int64_t SlopeIfKnown(const MemoryGrowth& growth) {
  const bool is_known = growth.step_count >= MemoryGrowth::kFewestSteps;
  return is_known ? growth.bytes_per_step : Column::kUnknown;
}

const ObjectDescription<MemoryGrowth>& GrowthObject() {
  static const ObjectDescription<MemoryGrowth> object(
      table::Description<MemoryGrowth>(
          GrowthFields<MemoryGrowth>("", {&SlopeIfKnown, {.nullable = true}})),
      {ListOf<MemoryGrowth>(
           std::string(kSuspects), "What grows, by operator: the largest first", &ShareObject,
           [](const MemoryGrowth& growth) -> const auto& { return growth.suspects_by_op; }),
       ListOf<MemoryGrowth>(
           std::string(kSuspectsBySource),
           "What grows, by the line that allocated it; empty without Python stacks", &ShareObject,
           [](const MemoryGrowth& growth) -> const auto& { return growth.suspects_by_source; })});
  return object;
}

std::vector<std::string> SampleKeys(const Device& /*device*/) {
  std::vector<std::string> keys;
  for (const table::AnyField& field : SampleColumns().fields()) keys.push_back(field.column.key);
  return keys;
}

const ObjectDescription<Device>& DeviceObject() {
  static const ObjectDescription<Device> object = [] {
    std::vector<table::Member<Device>> members;
    ForEachPeakList([&]<typename List>(const char* name, const char* doc, List) {
      members.push_back(ListOf<Device>(
          name, doc, &ShareObject,
          [](const Device& device) -> const auto& { return List::Of(device); }));
    });
    members.push_back(ListOf<Device>(
        "peak_blocks", "The largest blocks that were allocated in the window and alive at the peak",
        &BlockObject, [](const Device& device) -> const auto& { return device.peak_blocks; }));
    members.push_back(ListOf<Device>(
        "steps", "Memory in each step", &StepObject,
        [](const Device& device) -> const auto& { return device.steps; }));
    members.push_back(ObjectOf<Device>(
        "growth", "Growth from step to step", &GrowthObject,
        [](const Device& device) -> const auto& { return device.growth; }));
    members.push_back(ListOf<Device>(
        "categories", "What memory was for, over the window", &CategoryObject,
        [](const Device& device) -> const auto& { return device.memory.categories; }));
    const auto samples = [](const Device& device) -> const auto& { return device.samples; };
    members.push_back(ArraysOf<Device>(
        "points", "Levels over time: the first two columns of samples", &PointColumns, samples));
    members.push_back(
        TextsOf<Device>("sample_columns", "Names of the columns of samples", &SampleKeys));
    members.push_back(ArraysOf<Device>("samples", "Levels over time, by what memory was for",
                                       &SampleColumns, samples));
    return ObjectDescription<Device>(table::Description<Device>(DeviceFields()), members);
  }();
  return object;
}

NestedTable<MemorySample> SampleTable() { return {"samples", {DeviceColumn()}, SampleColumns()}; }

}  // namespace

table::Table MemorySampleTable(std::string_view device, std::span<const MemorySample> samples) {
  NestedTable table = SampleTable();
  table.Add({device}, samples);
  return std::move(table).Take();
}

table::Report ToReport(const MemoryReport& memory) {
  NestedTable categories("categories", {DeviceColumn()}, CategoryColumns());
  NestedTable shares(
      "shares",
      {DeviceColumn(),
       Key(PlainColumn("list", "List",
                       "What the memory alive at the peak is broken down by; suspects_by_op and "
                       "suspects_by_source: what grows"))},
      ShareColumns());
  NestedTable steps("steps", {DeviceColumn()}, StepColumns());
  NestedTable blocks("peak_blocks", {DeviceColumn()}, BlockColumns());
  NestedTable samples = SampleTable();
  for (const Device& device : memory.devices) {
    const std::string& name = device.memory.device;
    categories.Add({name}, device.memory.categories);
    ForEachShareList([&](std::string_view list, std::string_view, auto path) {
      shares.Add({name, list}, path.Of(device));
    });
    steps.Add({name}, device.steps);
    blocks.Add({name}, device.peak_blocks);
    samples.Add({name}, device.samples);
  }
  return {.name = std::string(kName),
          .tables = {DeviceColumns().ToTable("devices", memory.devices),
                     std::move(categories).Take(), std::move(shares).Take(),
                     std::move(steps).Take(), std::move(blocks).Take(), std::move(samples).Take(),
                     FailedColumns().ToTable("out_of_memory", memory.out_of_memory)}};
}

absl::StatusOr<MemoryReport> MemoryFrom(const table::Report& report) {
  if (report.name != kName) return table::DoNotFitTogether();
  MemoryReport memory;
  ASSIGN_OR_RETURN(memory.devices, RowsOf(report, "devices", DeviceColumns()));
  DevicesByName devices;
  for (Device& device : memory.devices) devices[device.memory.device] = &device;
  if (devices.size() != memory.devices.size()) return table::DoNotFitTogether();
  RETURN_IF_ERROR(Distribute(
      report, "categories", CategoryColumns(), devices,
      [](Device & device) -> auto& { return device.memory.categories; }));
  RETURN_IF_ERROR(Distribute(report, "shares", "list", ShareColumns(), devices, &ShareListOf));
  RETURN_IF_ERROR(Distribute(
      report, "steps", StepColumns(), devices,
      [](Device & device) -> auto& { return device.steps; }));
  RETURN_IF_ERROR(
      Distribute(report, "peak_blocks", "ranges", BlockColumns(), devices, &BlockListOf));
  RETURN_IF_ERROR(Distribute(
      report, "samples", SampleColumns(), devices,
      [](Device & device) -> auto& { return device.samples; }));
  ASSIGN_OR_RETURN(memory.out_of_memory, RowsOf(report, "out_of_memory", FailedColumns()));
  return memory;
}

const ObjectDescription<MemoryReport>& MemoryObject() {
  static const ObjectDescription<MemoryReport> object(
      {}, {ListOf<MemoryReport>(
               "devices", "Devices, by name", &DeviceObject,
               [](const MemoryReport& memory) -> const auto& { return memory.devices; }),
           ListOf<MemoryReport>(
               "out_of_memory", "Allocations that failed", &FailedObject,
               [](const MemoryReport& memory) -> const auto& { return memory.out_of_memory; })});
  return object;
}

}  // namespace profd::report
