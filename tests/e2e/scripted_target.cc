// A target that does what it is told, line by line on standard input, so that tests decide
// what happens when. It answers every command with one line on standard output, once it
// is done: `ok`, or `ok VALUE`, or `error TEXT`.
//
//   init                     profd_init()
//   step [N]                 N step marks (1)
//   range NAME [N]           N ranges, back to back (1); NAME may be hex:...
//   nested NAME DEPTH        ranges NAME/0 .. NAME/DEPTH-1 inside each other
//   open NAME | close        begin or end one range
//   instant NAME | counter NAME VALUE
//   alloc ADDRESS BYTES TOTAL | free ADDRESS BYTES TOTAL
//   flood N                  N allocations of 64 bytes that are never freed
//   threads COUNT RANGES     COUNT threads one after another, RANGES ranges each
//   busy STEPS RANGES        STEPS times: a step mark, then RANGES ranges
//   train MS                 a step mark and 10 ranges every MS milliseconds, from now on
//   rest                     ends `train`
//   status                   ok CONNECTED RECORDING STEPS DROPPED CAPTURES
//   await-connected | await-recording | await-idle
//   fork                     forks a child that marks steps for ever; ok CHILD_PID
//   fork-silent              forks a child that does nothing for ever; ok CHILD_PID
//   exec ARG...              execs the program
//   exit CODE
//   gpu ...                  see scripted_gpu.h
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client_lib/include/profd/profd.h"
#include "tests/e2e/scripted_gpu.h"

namespace {

void Answer(const std::string& text) {
  std::cout << text << '\n';
  std::cout.flush();
}

std::string NameFrom(const std::string& word) {
  if (word.rfind("hex:", 0) != 0) return word;
  std::string name;
  for (size_t i = 4; i + 1 < word.size(); i += 2) {
    name.push_back(static_cast<char>(std::stoi(word.substr(i, 2), nullptr, 16)));
  }
  return name;
}

uint32_t Intern(const std::string& word) {
  const std::string name = NameFrom(word);
  return profd_intern(name.data(), name.size());
}

void Ranges(uint32_t name, int64_t count) {
  profd_name handle{"", 0, name};
  for (int64_t i = 0; i < count; ++i) {
    profd_range_begin(&handle);
    profd_range_end();
  }
}

profd_status Status() {
  profd_status status{};
  status.size_bytes = sizeof(status);
  profd_get_status(&status);
  return status;
}

// There is no event to wait for: the library's state is polled, for at most 20 s.
template <typename Condition>
void Await(Condition condition) {
  for (int i = 0; i < 20'000; ++i) {
    if (condition(Status())) return Answer("ok");
    poll(nullptr, 0, 1);
  }
  Answer("error timed out");
}

void Flood(int64_t count) {
  profd_memory_event event = {};
  event.bytes = 64;
  event.total_allocated_bytes = -1;
  event.total_reserved_bytes = -1;
  for (int64_t i = 0; i < count; ++i) {
    event.address += 64;
    profd_alloc(&event);
  }
}

profd_memory_event Memory(std::istringstream& words) {
  profd_memory_event event{};
  words >> event.address >> event.bytes >> event.total_allocated_bytes;
  event.total_reserved_bytes = -1;
  event.device_type = PROFD_DEVICE_CUDA;
  event.category = PROFD_MEMORY_ACTIVATION;
  return event;
}

// Commands as they come, and training in between: one thread does both, because the thread
// that marks the first step is the one whose marks count.
class Trainer {
 public:
  void Start(int interval_ms) { interval_ms_ = interval_ms; }
  void Stop() { interval_ms_ = -1; }

  // The next command; false at the end of input.
  bool Next(std::string* line) {
    for (;;) {
      const size_t end = input_.find('\n');
      if (end != std::string::npos) {
        *line = input_.substr(0, end);
        input_.erase(0, end + 1);
        return true;
      }
      pollfd standard_input{STDIN_FILENO, POLLIN, 0};
      if (poll(&standard_input, 1, interval_ms_) == 0) {
        TrainOneStep();
        continue;
      }
      char bytes[4096];
      const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
      if (got == 0 || (got < 0 && errno != EINTR)) return false;
      if (got > 0) input_.append(bytes, static_cast<size_t>(got));
    }
  }

 private:
  void TrainOneStep() {
    profd_step();
    Ranges(profd_intern("work", 4), 10);
    profd::e2e::StepWork();
  }

  int interval_ms_ = -1;  // -1: at rest
  std::string input_;
};

void RunThreads(int64_t count, int64_t ranges) {
  const uint32_t name = profd_intern("in thread", 9);
  for (int64_t i = 0; i < count; ++i) {
    std::thread([&] { Ranges(name, ranges); }).join();
  }
}

void Fork(bool steps) {
  const pid_t child = fork();
  if (child > 0) return Answer("ok " + std::to_string(child));
  for (;;) {
    if (getppid() == 1) _exit(0);
    if (steps) profd_step();
    poll(nullptr, 0, 2);
  }
}

void Handle(const std::string& line, Trainer& trainer) {
  std::istringstream words(line);
  std::string command;
  std::string name;
  int64_t a = 1;
  int64_t b = 1;
  words >> command;
  if (command == "init") {
    profd_init();
  } else if (command == "step") {
    words >> a;
    if (!words) a = 1;
    for (int64_t i = 0; i < a; ++i) profd_step();
  } else if (command == "range") {
    words >> name >> a;
    if (!words) a = 1;
    Ranges(Intern(name), a);
  } else if (command == "nested") {
    words >> name >> a;
    for (int64_t i = 0; i < a; ++i) {
      profd_range_begin_id(Intern(name + "/" + std::to_string(i)));
    }
    for (int64_t i = 0; i < a; ++i) profd_range_end_id();
  } else if (command == "open") {
    words >> name;
    profd_range_begin_id(Intern(name));
  } else if (command == "close") {
    profd_range_end_id();
  } else if (command == "instant") {
    words >> name;
    profd_instant_id(Intern(name));
  } else if (command == "counter") {
    double value = 0;
    words >> name >> value;
    profd_counter_id(Intern(name), value);
  } else if (command == "alloc" || command == "free") {
    const profd_memory_event event = Memory(words);
    if (command == "alloc") profd_alloc(&event);
    if (command == "free") profd_free(&event);
  } else if (command == "flood") {
    words >> a;
    Flood(a);
  } else if (command == "threads") {
    words >> a >> b;
    RunThreads(a, b);
  } else if (command == "busy") {
    words >> a >> b;
    const uint32_t busy = profd_intern("busy", 4);
    for (int64_t i = 0; i < a; ++i) {
      profd_step();
      Ranges(busy, b);
    }
  } else if (command == "train") {
    words >> a;
    trainer.Start(static_cast<int>(a));
  } else if (command == "rest") {
    trainer.Stop();
  } else if (command == "status") {
    const profd_status s = Status();
    std::ostringstream text;
    text << "ok " << s.connected << ' ' << s.recording << ' ' << s.step_count << ' '
         << s.dropped_event_count << ' ' << s.capture_count;
    Answer(text.str());
    return;
  } else if (command == "await-connected") {
    Await([](const profd_status& s) { return s.connected != 0; });
    return;
  } else if (command == "await-recording") {
    Await([](const profd_status& s) { return s.recording != 0; });
    return;
  } else if (command == "await-idle") {
    Await([](const profd_status& s) { return s.recording == 0; });
    return;
  } else if (command == "fork" || command == "fork-silent") {
    Fork(command == "fork");
    return;
  } else if (command == "exec") {
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    Answer("ok");
    execv(argv[0], argv.data());
    _exit(127);
  } else if (command == "gpu") {
    return Answer(profd::e2e::HandleGpu(words));
  } else if (command == "exit") {
    words >> a;
    Answer("ok");
    exit(static_cast<int>(a));
  } else {
    Answer("error no command " + command);
    return;
  }
  Answer("ok");
}

}  // namespace

int main() {
  // Children are not waited for by name: the kernel reaps them.
  signal(SIGCHLD, SIG_IGN);
  Trainer trainer;
  for (std::string line; trainer.Next(&line);) Handle(line, trainer);
  return 0;
}
