// Child runs a piece of a test in a process of its own, because what the library does is
// once per process. Both sides talk over a pipe pair, one byte a message, so that each
// waits for the other and never for time.
//
//   Child child(daemon.directory(), [](Parent& parent) {
//     profd_init();
//     parent.Tell('i');
//     parent.Await('r');               // recording
//     ...
//   });
//   auto target = daemon.WaitTarget();
//   child.Await('i');
//   ...
//   child.ExpectSuccess();
//
// The test process itself must never start the library, and has one thread.
#ifndef PROFD_TESTS_CLIENT_LIB_CHILD_H_
#define PROFD_TESTS_CLIENT_LIB_CHILD_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "client_lib/include/profd/profd.h"

namespace profd::testing {

// The child's view of the test.
class Parent {
 public:
  Parent(int in, int out) : in_(in), out_(out) {}
  void Tell(char message);
  void Await(char message);
  char Next();  // Whatever comes.
  // Whether `fd` is one that the two talk over.
  bool Has(int fd) const { return fd == in_ || fd == out_; }

 private:
  const int in_;
  const int out_;
};

class Child {
 public:
  // Forks; the child runs `body` with PROFD_SOCKET_DIR set and exits.
  Child(const std::string& socket_directory, const std::function<void(Parent&)>& body);
  ~Child();  // Kills what still runs.
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void Tell(char message);
  void Await(char message);

  // Waits for the end of the child, and holds it against exit code 0.
  void ExpectSuccess();
  // Waits for it, and returns what WaitForExit() does.
  int WaitForEnd();
  void Signal(int number);
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

// In a child: ends it as failed unless `condition` holds.
#define CHILD_EXPECT(condition) \
  ::profd::testing::ExpectInChild((condition), #condition, __FILE__, __LINE__)
void ExpectInChild(bool condition, const char* text, const char* file, int line);

profd_status Status();
// Waits until this process is connected, and until a capture records or no longer does.
void WaitConnected();
void WaitDisconnected();
void WaitRecording();
void WaitNotRecording();

// Waits for process `pid` and returns what it exited with; 128 + n for signal n.
int WaitForExit(pid_t pid);

// How many files this process has open.
int CountOpenFiles();

// The /proc directory of this process's thread `name`; "" where there is none.
std::string ThreadDirectory(const std::string& name);
// How many files that thread has open, in whatever descriptor table it has.
int CountOpenFilesOf(const std::string& thread_directory);

// A range around nothing.
void EmptyRange(profd_name* name);
inline profd_name g_range = PROFD_NAME_INIT("range");

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_CHILD_H_
