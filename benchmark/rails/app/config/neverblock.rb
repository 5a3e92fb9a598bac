# frozen_string_literal: true

# Puma and Falcon send no 103 either unless they are told to, and wrk would count each as an answer.
early_hints false

# Whom a busy server would turn away after two seconds waits as long as in the others' backlogs, where that is what is measured.
queue max_wait: Float(ENV["SHOP_PATIENCE"]) if ENV["SHOP_PATIENCE"]
