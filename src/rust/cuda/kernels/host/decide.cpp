// neighbours/decide.cuh for the CPU: see the tests in src/neighbours/decision/tests.rs.

#include "cuda.hpp"

#include "../neighbours/decide.cuh"

template <class Form> void decide_all(const Sweep &sweep, const Decision &decision) {
  static thread_local DecisionMemory memory;
  launch({sweep.query_count}, DECIDE_THREADS, [&] { decide_by<Form>(sweep, decision, memory); });
}

EXPORT void host_decide(uint form, bool last_first, const Sweep &sweep, const Decision &decision) {
  backwards = last_first;
  switch (form) {
  case 0: return decide_all<Sum<Square>>(sweep, decision);
  case 1: return decide_all<Sum<Magnitude>>(sweep, decision);
  case 2: return decide_all<Maximum>(sweep, decision);
  case 3: return decide_all<Canberra>(sweep, decision);
  default: return decide_all<Angle>(sweep, decision);
  }
}
