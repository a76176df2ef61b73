// SPDX-License-Identifier: Apache-2.0
// What a page needs to draw its charts.
import embed from "vega-embed";

globalThis.vegaEmbed = embed;
