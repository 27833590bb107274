// OptimizerTwins tells optimizers of one name apart, such as the Adams of a GAN's generator and
// discriminator, by the work before their calls: how many nodes autograd made.
//
//   discriminator   generator   discriminator   generator         calls
//        52            31            52            31             nodes before each
//
// A pattern alone may be one optimizer whose work alternates. So it asks, once, how many optimizers
// of the name there are, which only Python knows; it splits the name if there are as many as there
// are kinds of work. Where the work of each differs from time to time, or that of all is equal, it
// tells none apart: all are one, as their name says.
//
// Threads: one. Hot path: no allocation, no clock; some ten ns a call.
#ifndef PROFD_CLIENT_LIB_TORCH_OPTIMIZER_TWINS_H_
#define PROFD_CLIENT_LIB_TORCH_OPTIMIZER_TWINS_H_

#include <cstdint>

namespace profd::client::torch {

// How many optimizers of a name there are.
inline constexpr uint32_t kUnknownCount = 0;

class OptimizerTwins {
 public:
  // What no optimizer is called: one whose work is new while others are told apart.
  static constexpr uint64_t kNobody = 0;

  // An optimizer of `name` was called after `nodes` that autograd made since the last call; there
  // are `count` of that name, as far as is known. Returns a number that stands for it: `name`, but
  // where it is one of several.
  uint64_t IdentityOf(uint64_t name, uint64_t nodes, uint32_t count);

  // One was called of which nothing is to be learnt.
  void Skip() { ++calls_; }

  // Whether identities are those of single optimizers; they were other numbers before it changed.
  bool is_split() const { return is_split_; }

  // True once for each time that the counts should be looked up: those from before are out of date.
  bool TakeQuestion();

  // Batches tell where steps begin: what was seen until now says nothing.
  void Forget();

 private:
  static constexpr uint32_t kKept = 16;
  static constexpr uint32_t kLongestPeriod = 7;
  static constexpr uint32_t kMostMisses = 4;     // Of the last kKept calls.
  static constexpr uint32_t kMostQuestions = 8;  // Ever; each takes the GIL, see _torch_optimizers.
  static constexpr uint64_t kQuestionSpacing = 4;  // Times as many calls as until the last one.

  uint64_t SplitIdentity(uint64_t key);
  uint32_t Period() const;
  uint32_t KindsOf(uint64_t name, uint32_t period) const;
  void Consider(uint64_t name, uint32_t count);
  void Ask();
  void SplitAtPeriod();

  // Call n at [n % kKept].
  uint64_t keys_[kKept] = {};
  uint64_t names_[kKept] = {};
  uint64_t seen_ = 0;   // Since Forget().
  uint64_t calls_ = 0;  // Ever.

  bool are_several_ = false;  // Of a name; to be split when a period begins.
  bool is_split_ = false;
  uint64_t known_[kLongestPeriod] = {};
  uint32_t known_count_ = 0;
  uint32_t misses_ = 0;  // A bit for each of the last kKept calls.

  bool is_question_ = false;  // Not taken yet.
  bool has_asked_ = false;    // And not used the answer yet.
  uint32_t question_count_ = 0;
  uint64_t next_question_ = 0;  // Not before so many calls.
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_OPTIMIZER_TWINS_H_
