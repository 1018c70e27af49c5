# The files that `cmake --install` leaves, of which packages are made (cmake/Package.cmake). Component `program`: the
# program, its documentation, examples and machine files;
# `development`, of a build without CUDA: the libraries as a CMake package. docs/install.md and docs/library.md say how they
# are used.
include(CMakePackageConfigHelpers)

if(NOT SPILLWAY_CUDA)
  set(package lib/cmake/spillway)
  install(TARGETS spillway_flags EXPORT spillway COMPONENT development)
  install(EXPORT spillway NAMESPACE spillway:: FILE spillwayTargets.cmake DESTINATION ${package} COMPONENT development)
  install(FILES cmake/spillwayConfig.cmake DESTINATION ${package} COMPONENT development)
  # Names of headers change until 1.0 with every minor version.
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/spillwayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/spillwayConfigVersion.cmake DESTINATION ${package} COMPONENT development)
endif()

# As in the source folder, so that the links between the pages hold.
set(documentation share/doc/spillway)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${documentation} COMPONENT program)
install(DIRECTORY docs examples DESTINATION ${documentation} COMPONENT program)
install(DIRECTORY machines DESTINATION share/spillway COMPONENT program)

# The program looks for its own libraries there.
set(private_libraries lib/spillway)
if(SPILLWAY_ARROW)
  install(TARGETS spillway_arrow LIBRARY DESTINATION ${private_libraries} COMPONENT program)
  file(GLOB libraries ${SPILLWAY_ARROW}/lib/libarrow.so.* ${SPILLWAY_ARROW}/lib/libparquet.so.*)
  install(FILES ${libraries} DESTINATION ${private_libraries} COMPONENT program)
  set_target_properties(spillway_arrow PROPERTIES INSTALL_RPATH "\$ORIGIN")
endif()
if(TARGET spillway_mpi)  # opened in jobs of several ranks alone: packages recommend MPI, and do not need it
  set_target_properties(spillway_mpi PROPERTIES INSTALL_RPATH "\$ORIGIN")
  install(TARGETS spillway_mpi LIBRARY DESTINATION ${private_libraries} COMPONENT program)
endif()
install(TARGETS spillway EXPORT spillway RUNTIME_DEPENDENCY_SET libraries COMPONENT program)
include(cmake/Package.cmake)
