# Debian packages, one a component: `cpack -G DEB` in a build of the preset deb;
# ./ci/by_hand/deb also installs and tries them.  Modules that want libraries of their
# own are packages of their own, so that the command needs few.
set(CPACK_PACKAGE_VENDOR Steptune)
set(CPACK_PACKAGE_CONTACT "The Steptune authors")
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENTS_ALL)

# stp_deb(COMPONENT PACKAGE SUMMARY [DEPENDENCY...]) - a package; dependencies
# beside the libraries that dpkg-shlibdeps finds.
macro(stp_deb component package summary)
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}")
  string(REPLACE ";" ", " CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARGN}")
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright)
endmacro()

set(same "(= ${PROJECT_VERSION})")
stp_deb(steptune steptune
  "measures collectives and training steps, and derives NCCL policies"
  "libnccl-tuner-steptune ${same}")
set(CPACK_DEBIAN_STEPTUNE_PACKAGE_SUGGESTS "gnuplot-nox, steptune-gloo")
stp_deb(plugins libnccl-tuner-steptune
  "tuner plugins for NCCL, and a library that stages its collectives")
stp_deb(dev steptune-dev
  "mock NCCL for tests of tuner plugins, and headers of libsteptune_memory"
  "steptune ${same}" "libnccl-tuner-steptune ${same}" "libexpat1-dev (>= 2.4)")
foreach(module cuda gloo) # those that could be built
  if(TARGET steptune-${module})
    stp_deb(${module} steptune-${module} "steptune's transport ${module}"
      "steptune ${same}")
  endif()
endforeach()
include(CPack)
