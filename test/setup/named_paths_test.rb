# frozen_string_literal: true

require "test_helper"

# Files of the project that comments and pages name exist: a moved file is renamed there too.
class NamedPathsTest < Minitest::Test
  FILES = "{README,CONTRIBUTING,SECURITY}.md,{benchmark,bin,docs,examples,exe,ext,lib,rakelib,script,sig,tools}/**/*.{c,h,md,rake,rb,rbs,sh,yml}"
  NAMED = %r{(?<![\w/.])(?:lib/neverblock|ext/neverblock|rakelib|test/(?:conformance|integration|programs|setup|support|unit))/[\w/.-]+\.(?:c|h|rake|rb|yml)\b}

  def test_named_paths_exist
    files = Dir.glob("{#{FILES}}", base: NeverBlockTest::ROOT).grep_v(%r{/vendor/})
    assert_includes files, "ext/neverblock/neverblock.c"
    missing = files.flat_map do |file|
      named = File.read(File.join(NeverBlockTest::ROOT, file)).scrub.scan(NAMED).uniq
      named.reject { |path| File.exist?(File.join(NeverBlockTest::ROOT, path)) }.map { |path| "#{file} names #{path}" }
    end
    assert_empty missing
  end
end
