/* Groups of cupti_facts.c about costs, and about sessions that follow others. Each prints facts,
 * and returns 0, or 3 without a GPU. */
#ifndef PROFD_TESTS_GPU_CUPTI_COST_H_
#define PROFD_TESTS_GPU_CUPTI_COST_H_

/* ns per call in each state of cupti_states.h, round after round for `seconds`. `cudart`: the
 * runtime's library, or null: driver calls only. */
int run_call_tax(const char* cupti_path, const char* cudart, int seconds);
/* `count` sessions while a thread launches: kernels launched after the kinds went on. */
int run_sessions(int count, int unsubscribed);
/* The same without a subscription, in another order of calls; ends after some seconds. */
int run_enable_order(int count, int variant);
/* Sessions with cuptiFinalize() after each. `graph`: 1 made before the first, 2 after it. `inside`:
 * cuptiFinalize() is called in a callback, as NVIDIA advises. */
int run_finalize(int graph, int inside, int sessions);

#endif /* PROFD_TESTS_GPU_CUPTI_COST_H_ */
