# SPDX-License-Identifier: Apache-2.0
# nix-build default.nix
{ pkgs ? import <nixpkgs> { } }:

pkgs.python3Packages.buildPythonApplication {
  pname = "tollmeter";
  version = "@VERSION@";
  pyproject = true;
  src = ../tollmeter-@VERSION@.tar.gz;

  build-system = [ pkgs.python3Packages.hatchling ];
  dependencies = with pkgs.python3Packages; [ capstone jinja2 msgspec numpy pyelftools rich typer ];

  # The probes are compiled at the first run.
  makeWrapperArgs = [ "--prefix PATH : ${pkgs.lib.makeBinPath [ pkgs.gcc pkgs.gnumake ]}" ];
  doCheck = false;

  meta = {
    description = "Measures what it costs when code crosses a boundary on a machine, and explains the cost";
    license = pkgs.lib.licenses.asl20;
    platforms = pkgs.lib.platforms.linux;
    mainProgram = "toll";
  };
}
