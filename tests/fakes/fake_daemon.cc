#include "tests/fakes/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <numeric>

namespace profd::testing {
namespace {

void Require(bool condition, const std::string& what) {
  if (!condition) FailTest(what);
}

void WaitReadable(int fd, const std::string& what) {
  pollfd waited{fd, POLLIN, 0};
  int ready;
  do {
    ready = poll(&waited, 1, kDeadlineMs);
  } while (ready < 0 && errno == EINTR);
  Require(ready == 1, "never came: " + what);
}

int MakeStatusPage() {
  const int fd = MakeSealedMemfd("fake-status-page", wire::kStatusPageBytes);
  const uint32_t head[2] = {wire::kStatusPageMagic, wire::kStatusPageVersion};
  Require(pwrite(fd, head, sizeof(head), 0) == sizeof(head), "writing the status page");
  return fd;
}

template <typename Event>
Event RecordAs(const std::byte* record, size_t size) {
  Require(size == sizeof(Event), "a record has the wrong size for its kind");
  Event event;
  memcpy(&event, record, sizeof(event));
  return event;
}

}  // namespace

void FailTest(const std::string& message) {
  fprintf(stderr, "fake daemon: %s\n", message.c_str());
  abort();
}

void PauseForPoll() {
  const timespec pause{0, 500'000};
  nanosleep(&pause, nullptr);
}

uint64_t PollClockMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

int MakeSealedMemfd(const char* name, uint64_t bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Require(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
              fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0,
          "making a memfd");
  return fd;
}

wire::ArmBody GpuArm(wire::GpuMode mode, uint32_t flags) {
  return {.gpu_buffer_bytes = 16u << 20,
          .gpu_mode = static_cast<uint32_t>(mode),
          .flags = flags,
          .gpu_arm_timeout_ms = 60'000};
}

wire::FireBody ByTime() { return {0, wire::kNextStep, 0, 0, 0, 1, 0}; }

wire::FireBody Steps(uint64_t active, uint32_t warmup, uint32_t wait, uint32_t repeat,
                     uint64_t base_step) {
  return {0, base_step, active, wait, warmup, repeat, 0};
}

uint64_t CaptureContents::CountRanges(const std::string& name) const {
  return static_cast<uint64_t>(std::count_if(
      ranges.begin(), ranges.end(), [&](const Range& range) { return range.name == name; }));
}

uint64_t CaptureContents::dropped() const {
  return std::accumulate(std::begin(drops), std::end(drops), uint64_t{0}) +
         std::accumulate(std::begin(warmup_drops), std::end(warmup_drops), uint64_t{0});
}

const wire::GpuStatusEvent& CaptureContents::gpu_status() const {
  Require(!gpu_statuses.empty(), "no status of the GPU was written");
  return gpu_statuses.back();
}

const wire::TorchStatusEvent& CaptureContents::torch_status() const {
  Require(!torch_statuses.empty(), "no status of torch was written");
  return torch_statuses.back();
}

const CaptureContents::Operator& CaptureContents::OperatorOf(const Range& range) const {
  for (const Operator& op : operators) {
    if (op.thread_serial == range.thread_serial && op.event.start_ticks == range.start_ticks &&
        op.event.depth == range.depth) {
      return op;
    }
  }
  FailTest("no operator's record goes with the range " + range.name);
}

uint64_t CaptureContents::CountGpuEvents() const {
  return api_calls.size() + kernels.size() + copies.size() + memsets.size() +
         decompressions.size() + graph_launches.size() + syncs.size() + overheads.size() +
         cuda_events.size() + device_memory.size();
}

std::vector<std::pair<uint16_t, std::string>> Frame::Fields(size_t body_bytes) const {
  std::vector<std::pair<uint16_t, std::string>> fields;
  size_t at = body_bytes;
  while (at + sizeof(wire::FieldHeader) <= body.size()) {
    wire::FieldHeader field;
    memcpy(&field, body.data() + at, sizeof(field));
    at += sizeof(field);
    Require(at + field.length_bytes <= body.size(), "a field runs past its frame");
    fields.emplace_back(field.tag, std::string(reinterpret_cast<const char*>(body.data()) + at,
                                               field.length_bytes));
    at += field.length_bytes;
  }
  Require(at == body.size(), "a frame ends inside a field");
  return fields;
}

// ---- FakeCapture

FakeCapture::FakeCapture(FakeTarget& target, uint64_t capture_number, uint64_t memory_bytes)
    : target_(target),
      number_(capture_number),
      layout_(wire::LayoutFor(memory_bytes)),
      fd_(MakeSealedMemfd("fake-capture", memory_bytes)) {
  void* mapped = mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  Require(mapped != MAP_FAILED, "mapping capture memory");
  memory_ = static_cast<std::byte*>(mapped);
  header_ = reinterpret_cast<wire::CaptureMemoryHeader*>(memory_);
  header_->magic = wire::kCaptureMemoryMagic;
  header_->version = wire::kCaptureMemoryVersion;
  header_->capture_number = number_;
  header_->total_bytes = layout_.total_bytes;
  header_->chunk_bytes = wire::kChunkBytes;
  header_->chunk_count = layout_.chunk_count;
  header_->name_capacity = layout_.name_capacity;
  header_->name_area_bytes = layout_.name_area_bytes;
  header_->chunk_table_offset = layout_.chunk_table_offset;
  header_->name_index_offset = layout_.name_index_offset;
  header_->name_area_offset = layout_.name_area_offset;
  header_->chunks_offset = layout_.chunks_offset;
  for (uint32_t i = 0; i < layout_.chunk_count; ++i) {
    chunk_control(i).next_free.store(i + 1 < layout_.chunk_count ? i + 2 : 0);
  }
  header_->free_head.store(1);
}

FakeCapture::~FakeCapture() {
  munmap(memory_, layout_.total_bytes);
  close(fd_);
}

wire::ChunkControl& FakeCapture::chunk_control(uint32_t index) {
  return reinterpret_cast<wire::ChunkControl*>(memory_ + layout_.chunk_table_offset)[index];
}

wire::ChunkHeader& FakeCapture::chunk(uint32_t index) {
  return *reinterpret_cast<wire::ChunkHeader*>(memory_ + layout_.chunks_offset +
                                               uint64_t{index} * wire::kChunkBytes);
}

void FakeCapture::Fire(wire::FireBody plan) {
  plan.capture_number = number_;
  target_.Send(wire::FrameType::kFire, plan);
}

wire::DrainedBody FakeCapture::Stop() {
  target_.Send(wire::FrameType::kStop, wire::StopBody{number_});
  const auto drained = target_.Expect(wire::FrameType::kDrained).As<wire::DrainedBody>();
  Require(drained.capture_number == number_, "DRAINED of another capture");
  return drained;
}

void FakeCapture::Release() { target_.Send(wire::FrameType::kRelease, wire::ReleaseBody{number_}); }

CaptureContents FakeCapture::Finish() {
  Stop();
  CaptureContents contents = Read();
  Release();
  return contents;
}

wire::Phase FakeCapture::phase() const {
  return static_cast<wire::Phase>(header_->phase.load(std::memory_order_acquire));
}

void FakeCapture::WaitPhase(wire::Phase wanted) const {
  WaitUntil("phase", [&] { return phase() == wanted; });
}

std::map<std::pair<uint32_t, uint32_t>, uint32_t> FakeCapture::FullChunks() {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> full;
  for (uint32_t i = 0; i < layout_.chunk_count; ++i) {
    if (chunk_control(i).state.load(std::memory_order_acquire) ==
        static_cast<uint32_t>(wire::ChunkState::kFull)) {
      full[{chunk(i).thread_serial, chunk(i).sequence}] = i;
    }
  }
  return full;
}

void FakeCapture::RecycleFullChunks(bool keep) {
  // In their order. A thread's chunk that became full during the first look may be missing in it,
  // though its next one is there: whatever comes before that is full by the second look.
  std::map<uint32_t, uint32_t> last_of_thread;
  for (const auto& [number, i] : FullChunks()) last_of_thread[number.first] = number.second;
  for (const auto& [number, i] : FullChunks()) {
    const auto last = last_of_thread.find(number.first);
    if (last == last_of_thread.end() || number.second > last->second) continue;
    wire::ChunkControl& control = chunk_control(i);
    if (keep) ReadChunk(i, &recycled_);
    control.state.store(static_cast<uint32_t>(wire::ChunkState::kFree));
    uint64_t head = header_->free_head.load();
    uint64_t tag;
    do {
      control.next_free.store(static_cast<uint32_t>(head));
      tag = (head >> 32) + 1;
    } while (!header_->free_head.compare_exchange_weak(head, (tag << 32) | (i + 1)));
  }
}

std::string FakeCapture::NameOf(uint32_t id) const {
  Require(id != wire::kNoNameId && id < layout_.name_capacity, "a name id out of bounds");
  const auto* index =
      reinterpret_cast<const std::atomic<uint32_t>*>(memory_ + layout_.name_index_offset);
  const uint32_t offset = index[id].load(std::memory_order_acquire);
  Require(offset != 0, "an event carries a name that was not published");
  wire::NameEntry entry;
  Require(offset % 8 == 0 && offset >= layout_.name_area_offset &&
              offset + sizeof(entry) <= layout_.name_area_offset + layout_.name_area_bytes,
          "a name lies outside the name area");
  memcpy(&entry, memory_ + offset, sizeof(entry));
  Require(entry.length_bytes <= wire::kMaxNameBytes, "a name is too long");
  return {reinterpret_cast<const char*>(memory_ + offset + sizeof(entry)), entry.length_bytes};
}

template <typename Event>
void FakeCapture::TakeNamed(const std::byte* record, uint32_t size,
                            std::vector<CaptureContents::Named<Event>>* into) const {
  const auto event = RecordAs<Event>(record, size);
  into->push_back({NameOf(event.name_id), event});
}

bool FakeCapture::ReadGpuEvent(const wire::EventHeader& header, const std::byte* record,
                               CaptureContents* into) const {
  const uint32_t size = header.size_bytes;
  switch (static_cast<wire::EventKind>(header.kind)) {
    case wire::EventKind::kApiCall:
      TakeNamed(record, size, &into->api_calls);
      return true;
    case wire::EventKind::kKernel:
      TakeNamed(record, size, &into->kernels);
      return true;
    case wire::EventKind::kMemcpy:
      into->copies.push_back(RecordAs<wire::MemcpyEvent>(record, size));
      return true;
    case wire::EventKind::kMemset:
      into->memsets.push_back(RecordAs<wire::MemsetEvent>(record, size));
      return true;
    case wire::EventKind::kMemDecompress:
      into->decompressions.push_back(RecordAs<wire::MemDecompressEvent>(record, size));
      return true;
    case wire::EventKind::kGraphLaunch:
      into->graph_launches.push_back(RecordAs<wire::GraphLaunchEvent>(record, size));
      return true;
    case wire::EventKind::kSync:
      into->syncs.push_back(RecordAs<wire::SyncEvent>(record, size));
      return true;
    case wire::EventKind::kOverhead:
      into->overheads.push_back(RecordAs<wire::OverheadEvent>(record, size));
      return true;
    case wire::EventKind::kCudaEvent:
      into->cuda_events.push_back(RecordAs<wire::CudaEventEvent>(record, size));
      return true;
    case wire::EventKind::kDeviceMemory:
      into->device_memory.push_back(RecordAs<wire::DeviceMemoryEvent>(record, size));
      return true;
    case wire::EventKind::kDevice:
      TakeNamed(record, size, &into->devices);
      return true;
    case wire::EventKind::kContext:
      into->contexts.push_back(RecordAs<wire::ContextEvent>(record, size));
      return true;
    case wire::EventKind::kStream:
      into->streams.push_back(RecordAs<wire::StreamEvent>(record, size));
      return true;
    case wire::EventKind::kGpuStatus:
      into->gpu_statuses.push_back(RecordAs<wire::GpuStatusEvent>(record, size));
      return true;
    default:
      return false;
  }
}

bool FakeCapture::ReadFrameworkEvent(const wire::ChunkHeader& chunk, const std::byte* record,
                                     CaptureContents* into) const {
  wire::EventHeader header;
  memcpy(&header, record, sizeof(header));
  const auto name_or_none = [&](uint32_t id) {
    return id == wire::kNoNameId ? std::string() : NameOf(id);
  };
  switch (static_cast<wire::EventKind>(header.kind)) {
    case wire::EventKind::kOperator: {
      CaptureContents::Operator op{.inputs = InputsAsText(record),
                                   .thread_serial = chunk.thread_serial,
                                   .window = chunk.window};
      memcpy(&op.event, record, sizeof(op.event));
      into->operators.push_back(std::move(op));
      return true;
    }
    case wire::EventKind::kStackFrame: {
      const auto event = RecordAs<wire::StackFrameEvent>(record, header.size_bytes);
      into->stack_frames.push_back({NameOf(event.file_id), NameOf(event.name_id),
                                    name_or_none(event.class_name_id), event, chunk.thread_serial});
      return true;
    }
    case wire::EventKind::kModule: {
      const auto event = RecordAs<wire::ModuleEvent>(record, header.size_bytes);
      into->modules.push_back(
          {name_or_none(event.path_id), name_or_none(event.class_name_id), event});
      return true;
    }
    case wire::EventKind::kNote: {
      const auto event = RecordAs<wire::NoteEvent>(record, header.size_bytes);
      into->notes.push_back({name_or_none(event.subject_id), name_or_none(event.text_id), event});
      return true;
    }
    case wire::EventKind::kBlock: {
      const auto event = RecordAs<wire::BlockEvent>(record, header.size_bytes);
      into->blocks.push_back({name_or_none(event.name_id), event});
      return true;
    }
    case wire::EventKind::kTorchStatus:
      into->torch_statuses.push_back(RecordAs<wire::TorchStatusEvent>(record, header.size_bytes));
      return true;
    default:
      return false;
  }
}

void FakeCapture::ReadChunk(uint32_t index, CaptureContents* into) const {
  const std::byte* start = memory_ + layout_.chunks_offset + uint64_t{index} * wire::kChunkBytes;
  const auto& chunk = *reinterpret_cast<const wire::ChunkHeader*>(start);
  const uint32_t published = chunk.published_bytes.load(std::memory_order_acquire);
  const uint32_t serial = chunk.thread_serial;
  Require(published <= wire::kChunkDataBytes && published % 8 == 0, "published_bytes is wrong");
  into->os_threads[serial] = chunk.os_thread;
  for (uint32_t at = 0; at < published;) {
    const std::byte* record = start + wire::kChunkDataOffset + at;
    wire::EventHeader header;
    memcpy(&header, record, sizeof(header));
    Require(
        header.size_bytes >= 8 && header.size_bytes % 8 == 0 && at + header.size_bytes <= published,
        "a record runs past what is published");
    switch (static_cast<wire::EventKind>(header.kind)) {
      case wire::EventKind::kRange: {
        const auto event = RecordAs<wire::RangeEvent>(record, header.size_bytes);
        into->ranges.push_back({NameOf(event.name_id), event.start_ticks, event.duration_ticks,
                                event.depth, event.category, serial, chunk.window, header.thread,
                                header.flags});
        break;
      }
      case wire::EventKind::kStep: {
        const auto event = RecordAs<wire::StepEvent>(record, header.size_bytes);
        into->steps.push_back({event.step, event.time_ticks, serial, chunk.window});
        break;
      }
      case wire::EventKind::kInstant: {
        const auto event = RecordAs<wire::InstantEvent>(record, header.size_bytes);
        into->instants.push_back({NameOf(event.name_id), event.time_ticks});
        break;
      }
      case wire::EventKind::kCounter: {
        const auto event = RecordAs<wire::CounterEvent>(record, header.size_bytes);
        into->counters.push_back({NameOf(event.name_id), event.value});
        break;
      }
      case wire::EventKind::kMemory:
        into->memory.push_back(RecordAs<wire::MemoryEvent>(record, header.size_bytes));
        break;
      case wire::EventKind::kThreadName: {
        const auto event = RecordAs<wire::ThreadNameEvent>(record, header.size_bytes);
        auto& names =
            header.thread == 0 ? into->thread_names[serial] : into->lane_names[header.thread];
        names.push_back(NameOf(event.name_id));
        break;
      }
      default:
        Require(ReadGpuEvent(header, record, into) || ReadFrameworkEvent(chunk, record, into),
                "a record of unknown kind");
    }
    at += header.size_bytes;
  }
  const uint32_t open = chunk.open_depth.load(std::memory_order_acquire);
  Require(open <= wire::kMaxRangeDepth, "open_depth is wrong");
  for (uint32_t i = 0; i < open; ++i) {
    const wire::OpenRange& range = chunk.open_ranges[i];
    into->open_ranges.push_back({NameOf(range.name_id), range.start_ticks, serial, chunk.window});
  }
}

CaptureContents FakeCapture::Read() {
  CaptureContents contents = recycled_;
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, uint32_t>> used;
  for (uint32_t i = 0; i < layout_.chunk_count; ++i) {
    if (chunk_control(i).state.load(std::memory_order_acquire) !=
        static_cast<uint32_t>(wire::ChunkState::kFree)) {
      used.push_back({{chunk(i).thread_serial, chunk(i).sequence}, i});
    }
  }
  std::sort(used.begin(), used.end());
  for (size_t i = 0; i < used.size(); ++i) {
    Require(i == 0 || used[i].first != used[i - 1].first, "two chunks of a thread share a number");
    ReadChunk(used[i].second, &contents);
  }
  for (size_t i = 0; i < wire::kDropCauseCount; ++i) {
    contents.drops[i] = header_->drops[i].load();
    contents.warmup_drops[i] = header_->warmup_drops[i].load();
  }
  contents.other_name_events = header_->other_name_event_count.load();
  contents.foreign_step_marks = header_->foreign_step_mark_count.load();
  contents.current_step = header_->current_step.load();
  contents.phase = phase();
  for (uint32_t i = 0; i < header_->window_count.load(); ++i) {
    const wire::Window& window = header_->windows[i];
    contents.windows.push_back({window.start_ticks.load(), window.end_ticks.load(),
                                window.first_step.load(), window.end_step.load()});
  }
  return contents;
}

namespace {

// Reads on behind an operator's event, to the record's end.
class InputReader {
 public:
  explicit InputReader(const std::byte* record) {
    wire::EventHeader header;
    memcpy(&header, record, sizeof(header));
    Require(header.size_bytes >= sizeof(wire::OperatorEvent), "an operator's record is too short");
    at_ = record + sizeof(wire::OperatorEvent);
    end_ = record + header.size_bytes;
  }

  bool at_end() const { return at_ == end_; }

  template <typename Value>
  Value Next() {
    static_assert(sizeof(Value) == 8);
    Require(end_ - at_ >= 8, "an input runs past its record");
    Value value;
    memcpy(&value, at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }

  template <typename Value = int64_t>
  std::string NextList(uint32_t count) {
    std::string text = "[";
    for (uint32_t i = 0; i < count; ++i) {
      if (i != 0) text.push_back(',');
      text.append(ToText(Next<Value>()));
    }
    text.push_back(']');
    return text;
  }

  std::string NextBytes(uint32_t count) {
    std::string text;
    while (text.size() < count) {
      const auto word = Next<uint64_t>();
      text.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    Require(text.find_first_not_of('\0', count) == std::string::npos, "padding is not zero");
    text.resize(count);
    return text;
  }

  static std::string ToText(int64_t value) { return std::to_string(value); }
  static std::string ToText(double value) {
    char text[32];
    snprintf(text, sizeof(text), "%g", value);
    return text;
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
};

std::string NextTensor(InputReader* reader, const wire::OperatorInput& input) {
  char place[32] = "";
  if ((input.flags & wire::kInputStorage) != 0) {
    snprintf(place, sizeof(place), " at 0x%llx",
             static_cast<unsigned long long>(reader->Next<uint64_t>()));
  }
  std::string text = "tensor ";
  text.append(std::to_string(input.dtype)).append(" ").append(reader->NextList(input.rank));
  if ((input.flags & wire::kInputStrides) != 0) {
    text.append(" strides ").append(reader->NextList(input.rank));
  }
  return text.append(place);
}

std::string NextInput(InputReader* reader) {
  const auto input = reader->Next<wire::OperatorInput>();
  const std::string cut = (input.flags & wire::kInputCut) != 0 ? " cut" : "";
  switch (static_cast<wire::InputKind>(input.kind)) {
    case wire::InputKind::kNone:
      return "none";
    case wire::InputKind::kTensor:
      return NextTensor(reader, input);
    case wire::InputKind::kTensorList:
      return "tensors " + std::to_string(input.count) + cut;
    case wire::InputKind::kInt:
      return "int " + InputReader::ToText(reader->Next<int64_t>());
    case wire::InputKind::kBool:
      return "bool " + InputReader::ToText(reader->Next<int64_t>());
    case wire::InputKind::kDouble:
      return "double " + InputReader::ToText(reader->Next<double>());
    case wire::InputKind::kString:
      return "string " + reader->NextBytes(input.count) + cut;
    case wire::InputKind::kIntList:
      return "ints " + reader->NextList(input.count) + cut;
    case wire::InputKind::kDoubleList:
      return "doubles " + reader->NextList<double>(input.count) + cut;
    case wire::InputKind::kBoolList:
      return "bools " + reader->NextList(input.count) + cut;
    case wire::InputKind::kOther:
      return "other";
  }
  FailTest("an input of unknown kind");
}

}  // namespace

std::vector<std::string> InputsAsText(const std::byte* record) {
  wire::OperatorEvent event;
  memcpy(&event, record, sizeof(event));
  InputReader reader(record);
  std::vector<std::string> inputs;
  for (uint32_t i = 0; i < event.described_count; ++i) inputs.push_back(NextInput(&reader));
  Require(reader.at_end(), "an operator's record goes on behind its inputs");
  return inputs;
}

// ---- FakeTarget

FakeTarget::FakeTarget(int fd, int page_fd) : fd_(fd), page_fd_(page_fd) {
  void* mapped =
      mmap(nullptr, wire::kStatusPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
  Require(mapped != MAP_FAILED, "mapping the status page");
  page_ = static_cast<wire::StatusPage*>(mapped);
}

FakeTarget::~FakeTarget() {
  munmap(page_, wire::kStatusPageBytes);
  close(page_fd_);
  close(fd_);
}

void FakeTarget::ReadHello() {
  const Frame frame = Expect(wire::FrameType::kHello);
  Require(frame.body.size() >= sizeof(wire::HelloBody), "HELLO is too short");
  hello_ = frame.As<wire::HelloBody>();
  TakeFields(frame, sizeof(wire::HelloBody));
}

void FakeTarget::SendWelcome(uint16_t version) {
  Send(wire::FrameType::kWelcome, wire::WelcomeBody{version, 0, 0, 1}, page_fd_);
}

std::unique_ptr<FakeCapture> FakeTarget::Arm(uint64_t memory_bytes) {
  return ArmByMarker("", memory_bytes);
}

std::unique_ptr<FakeCapture> FakeTarget::ArmByMarker(const std::string& step_marker,
                                                     uint64_t memory_bytes) {
  return ArmWithField(wire::FieldTag::kStepMarker, step_marker, memory_bytes);
}

std::unique_ptr<FakeCapture> FakeTarget::ArmTorch(const wire::ArmTorchField& wanted,
                                                  uint64_t memory_bytes) {
  const std::string field(reinterpret_cast<const char*>(&wanted), sizeof(wanted));
  return ArmWithField(wire::FieldTag::kTorch, field, memory_bytes);
}

// An empty field is left out.
std::unique_ptr<FakeCapture> FakeTarget::ArmWithField(wire::FieldTag tag, const std::string& field,
                                                      uint64_t memory_bytes) {
  auto capture = std::make_unique<FakeCapture>(*this, next_capture_++, memory_bytes);
  const wire::ArmBody arm{.capture_number = capture->number(),
                          .memory_bytes = memory_bytes,
                          .prefault_bytes = 2u << 20};
  std::string body(reinterpret_cast<const char*>(&arm), sizeof(arm));
  if (!field.empty()) {
    const wire::FieldHeader head{static_cast<uint16_t>(tag), static_cast<uint16_t>(field.size())};
    body.append(reinterpret_cast<const char*>(&head), sizeof(head)).append(field);
  }
  SendBytes(wire::FrameType::kArm, body.data(), body.size(), capture->fd());
  const auto armed = Expect(wire::FrameType::kArmed).As<wire::ArmedBody>();
  Require(armed.capture_number == capture->number(), "ARMED of another capture");
  return capture;
}

std::unique_ptr<FakeCapture> FakeTarget::SendArm(wire::ArmBody arm, uint64_t memory_bytes) {
  auto capture = std::make_unique<FakeCapture>(*this, next_capture_++, memory_bytes);
  arm.capture_number = capture->number();
  arm.memory_bytes = memory_bytes;
  arm.prefault_bytes = 2u << 20;
  Send(wire::FrameType::kArm, arm, capture->fd());
  return capture;
}

void FakeTarget::ExpectArmed(const FakeCapture& capture) {
  const auto armed = Expect(wire::FrameType::kArmed).As<wire::ArmedBody>();
  Require(armed.capture_number == capture.number(), "ARMED of another capture");
}

std::unique_ptr<FakeCapture> FakeTarget::ArmGpu(wire::GpuMode mode, uint32_t flags,
                                                uint64_t memory_bytes) {
  auto capture = SendArm(GpuArm(mode, flags), memory_bytes);
  ExpectArmed(*capture);
  return capture;
}

void FakeTarget::SendBytes(wire::FrameType type, const void* body, size_t body_bytes, int file) {
  std::vector<char> bytes(sizeof(wire::FrameHeader) + body_bytes);
  const wire::FrameHeader header{wire::kFrameMagic, static_cast<uint16_t>(type), 0,
                                 static_cast<uint32_t>(bytes.size()), 7};
  memcpy(bytes.data(), &header, sizeof(header));
  if (body_bytes != 0) memcpy(bytes.data() + sizeof(header), body, body_bytes);
  SendRaw(bytes.data(), bytes.size(), file);
}

void FakeTarget::SendRaw(const void* bytes, size_t size, int file) {
  iovec part{const_cast<void*>(bytes), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &file, sizeof(file));
  }
  const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
  // A target may end at any time, as with a real daemon. Who waits for its answer is told so.
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return;
  Require(sent == static_cast<ssize_t>(size), "sending a frame");
}

bool FakeTarget::ReceiveFrame(Frame* frame) {
  WaitReadable(fd_, "a frame from the target");
  std::vector<std::byte> bytes(wire::kMaxFrameBytes + 1);
  const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
  if (got <= 0) return false;
  const auto size = static_cast<size_t>(got);
  Require(size >= sizeof(wire::FrameHeader), "the target sent a short frame");
  memcpy(&frame->header, bytes.data(), sizeof(frame->header));
  Require(frame->header.magic == wire::kFrameMagic && frame->header.length_bytes == size,
          "the target sent a frame with a wrong header");
  frame->body.assign(bytes.begin() + sizeof(frame->header),
                     bytes.begin() + static_cast<std::ptrdiff_t>(size));
  return true;
}

Frame FakeTarget::Expect(wire::FrameType wanted) { return ExpectAfter(wanted, wanted); }

Frame FakeTarget::ExpectAfter(wire::FrameType perhaps, wire::FrameType wanted) {
  for (;;) {
    Frame frame;
    Require(ReceiveFrame(&frame), "the target hung up");
    if (frame.type() == wire::FrameType::kMetadata) TakeFields(frame, 0);
    if (frame.type() == wanted) return frame;
    if (frame.type() == perhaps) continue;
    if (frame.type() == wire::FrameType::kArming) {
      for (const auto& [tag, text] : frame.Fields(sizeof(wire::ArmingBody))) {
        arming_texts_.push_back(text);
      }
      continue;
    }
    Require(frame.type() == wire::FrameType::kMetadata,
            "got a frame of type " + std::to_string(frame.header.type) + ", not " +
                std::to_string(static_cast<int>(wanted)));
  }
}

void FakeTarget::ExpectClosed() {
  Frame frame;
  while (ReceiveFrame(&frame)) {
  }
}

void FakeTarget::TakeFields(const Frame& frame, size_t body_bytes) {
  for (const auto& [tag, text] : frame.Fields(body_bytes)) {
    if (tag == static_cast<uint16_t>(wire::FieldTag::kLibraryVersion)) library_version_ = text;
    if (tag != static_cast<uint16_t>(wire::FieldTag::kMetadata)) continue;
    const size_t equals = text.find('=');
    Require(equals != std::string::npos, "metadata without =");
    metadata_[text.substr(0, equals)] = text.substr(equals + 1);
  }
}

int FakeTarget::peer_pid() const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  Require(getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0, "SO_PEERCRED");
  return peer.pid;
}

void FakeTarget::WaitStepMarks(uint64_t count) const {
  WaitUntil("step marks", [&] { return page_->step_mark_count.load() >= count; });
}

// ---- FakeDaemon

FakeDaemon::FakeDaemon() : own_directory_(true) {
  char name[] = "/tmp/profd-fake-XXXXXX";
  Require(mkdtemp(name) != nullptr, "making a temporary directory");
  directory_ = name;
  Listen();
}

FakeDaemon::FakeDaemon(std::string directory) : directory_(std::move(directory)) { Listen(); }

void FakeDaemon::Listen() {
  mkdir((directory_ + "/agent").c_str(), 0755);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory_ + "/agent/agent.sock";
  Require(path.size() < sizeof(address.sun_path), "the socket's path is too long");
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  unlink(path.c_str());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  Require(listener_ >= 0 &&
              bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
              listen(listener_, 64) == 0,
          "listening at " + path);
}

FakeDaemon::~FakeDaemon() {
  close(listener_);
  unlink((directory_ + "/agent/agent.sock").c_str());
  if (!own_directory_) return;
  rmdir((directory_ + "/agent").c_str());
  rmdir(directory_.c_str());
}

std::unique_ptr<FakeTarget> FakeDaemon::Accept() {
  WaitReadable(listener_, "a target");
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  Require(fd >= 0, "accepting a target");
  return std::make_unique<FakeTarget>(fd, MakeStatusPage());
}

std::unique_ptr<FakeTarget> FakeDaemon::WaitTarget() {
  auto target = Accept();
  target->ReadHello();
  target->SendWelcome();
  return target;
}

bool FakeDaemon::HasCaller() const {
  pollfd waited{listener_, POLLIN, 0};
  return poll(&waited, 1, 0) == 1;
}

}  // namespace profd::testing
