# frozen_string_literal: true

# Puma and Falcon send no 103 either unless they are told to, and wrk would count each as an answer.
early_hints false
