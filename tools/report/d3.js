// The functions of D3 that the modules of inst/report use.
export { max, sum } from "d3-array";
export { axisBottom, axisLeft } from "d3-axis";
export { format } from "d3-format";
export { scaleLinear } from "d3-scale";
export { create, pointer, select, selectAll } from "d3-selection";
export { area, line } from "d3-shape";
