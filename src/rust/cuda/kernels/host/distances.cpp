// distances.cu for the CPU: see the tests in src/distances/decisions.rs.

#include "cuda.hpp"

// The kernel is compiled for one form; the others are asked pair by pair.
#define FORM Sum<Square>
#define BLOCKS 1
#include "../distances.cu"

template <class Form>
double distance(const double *a, const double *b, uint columns, uint parameter) {
  Form form;
  for (uint k = 0; k < columns; k++) form.add(a[k], b[k], parameter);
  return form.finish(columns, parameter);
}

// All forms but CanberraInRange, whose approximate inverse only GPUs make.
EXPORT double host_distance(uint form, const double *a, const double *b, uint columns,
                            uint parameter) {
  switch (form) {
  case 0: return distance<Sum<Square>>(a, b, columns, parameter);
  case 1: return distance<SumWithHoles<Square>>(a, b, columns, parameter);
  case 2: return distance<Sum<Magnitude>>(a, b, columns, parameter);
  case 3: return distance<SumWithHoles<Magnitude>>(a, b, columns, parameter);
  case 4: return distance<Maximum>(a, b, columns, parameter);
  case 5: return distance<MaximumWithHoles>(a, b, columns, parameter);
  case 6: return distance<Canberra>(a, b, columns, parameter);
  case 7: return distance<Binary>(a, b, columns, parameter);
  default: return distance<Angle>(a, b, columns, parameter);
  }
}

// CanberraInRange's quotient, where the upper half of the approximate inverse is off by so much.
EXPORT double host_quotient(double a, double b, int off) {
  return CanberraInRange::refined(a, b, __hiloint2double(__double2hiint(1.0 / b) + off, 1));
}

EXPORT void host_euclidean(const Piece &piece, uint across_rows, uint across_columns) {
  launch({across_rows, across_columns}, THREADS, [&] { distances(piece); });
}
